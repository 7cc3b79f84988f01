{{- define "fairway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "fairway.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairway.labels" -}}
{{ include "fairway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "fairway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "fairway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The image by digest if there is one, or else by tag. */}}
{{- define "fairway.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" if more than one pod may run. */}}
{{- define "fairway.severalPods" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}true{{- end -}}
{{- end -}}

{{/* Combinations of values that the schema cannot exclude. */}}
{{- define "fairway.check" -}}
{{- $several := include "fairway.severalPods" . -}}
{{- if not .Values.caddyfile -}}
{{- if not .Values.upstream -}}{{- fail "set upstream to the address of your API, or give a whole caddyfile" -}}{{- end -}}
{{- if not .Values.endpoints.mcp -}}{{- if not .Values.endpoints.otc -}}{{- fail "set endpoints.mcp, endpoints.otc or both" -}}{{- end -}}{{- end -}}
{{- if and .Values.auth.issuer (not .Values.url) -}}{{- fail "auth.issuer needs url, the address that clients know: tokens are issued for it" -}}{{- end -}}
{{- if and .Values.auth.options (not .Values.auth.issuer) -}}{{- fail "auth.options needs auth.issuer" -}}{{- end -}}
{{- if and $several (not .Values.store.type) -}}{{- fail "several pods need one store: set store.type to redis or postgres" -}}{{- end -}}
{{- if and (not .Values.store.type) (or .Values.store.url .Values.store.existingSecret) -}}{{- fail "store.url and store.existingSecret need store.type: redis or postgres" -}}{{- end -}}
{{- end -}}
{{- if and .Values.store.type (not .Values.store.url) (not .Values.store.existingSecret) -}}{{- fail "store.type needs store.existingSecret or store.url" -}}{{- end -}}
{{- if and .Values.store.url .Values.store.existingSecret -}}{{- fail "set store.existingSecret or store.url, not both" -}}{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}{{- fail "the ServiceMonitor needs metrics.enabled" -}}{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}{{- fail "the Ingress needs ingress.hosts" -}}{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}{{- fail "the route needs httpRoute.parentRefs" -}}{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.metricsFrom) -}}{{- fail "the ServiceMonitor needs networkPolicy.metricsFrom: the namespace of Prometheus, which the network policy keeps out otherwise" -}}{{- end -}}
{{- if and $several .Values.persistence.enabled -}}{{- fail "persistence is for one pod: the volume and the embedded store have one user" -}}{{- end -}}
{{- end -}}

{{- define "fairway.document" -}}
{{- if or (contains "://" .Values.document) (hasPrefix "/" .Values.document) -}}
{{- .Values.document -}}
{{- else -}}
/etc/caddy/{{ .Values.document }}
{{- end -}}
{{- end -}}

{{/* The Caddyfile. The site with probes and metrics is in none of the Services for clients. */}}
{{- define "fairway.caddyfile" -}}
{{- if .Values.caddyfile -}}
{{ .Values.caddyfile | trim }}
{{- else -}}
{
	admin {{ ternary "localhost:2019" "off" .Values.admin }}
	persist_config off
	# Requests that arrive while the endpoints of the Service change are still served.
	shutdown_delay {{ .Values.drain.shutdownDelay }}s
	grace_period {{ .Values.drain.gracePeriod }}s
{{- if .Values.metrics.enabled }}
	metrics
{{- end }}
{{- with .Values.trustedProxies }}
	servers {
		trusted_proxies static {{ join " " . }}
	}
{{- end }}
{{- with .Values.globalOptions }}
{{ include "fairway.lines" (list 1 .) }}
{{- end }}
	agents {
{{- if .Values.store.type }}
		store {{ .Values.store.type }} {env.STORE_URL}
{{- else if .Values.store.options }}
		store bolt
{{- end }}
{{- with .Values.store.options }} {
{{ include "fairway.lines" (list 3 .) }}
		}
{{- end }}
{{- with .Values.agentsOptions }}
{{ include "fairway.lines" (list 2 .) }}
{{- end }}
		toolset api {{ include "fairway.document" . }}
{{- with .Values.toolsetOptions }} {
{{ include "fairway.lines" (list 3 .) }}
		}
{{- end }}
	}
}

:8080 {
{{- if .Values.auth.issuer }}
	agent_auth {
		issuer {{ .Values.auth.issuer }}
		resource {{ .Values.url }}
{{- with .Values.auth.options }}
{{ include "fairway.lines" (list 2 .) }}
{{- end }}
	}
{{- end }}
{{- with .Values.endpoints.mcp }}
	mcp {{ . }} api
{{- if $.Values.sessions.existingSecret }} {
		secret {env.MCP_SECRET} {env.MCP_SECRET_PREVIOUS}
	}
{{- end }}
{{- end }}
{{- with .Values.endpoints.otc }}
	otc {{ . }} api
{{- end }}
{{- with .Values.siteOptions }}
{{ include "fairway.lines" (list 1 .) }}
{{- end }}
{{- if .Values.toolsOnly }}
	tools_only
{{- end }}
	reverse_proxy {{ .Values.upstream }}
}
{{- end }}

# Probes{{ if .Values.metrics.enabled }} and metrics{{ end }}, without login, at a port that is not in the Service for clients.
:8081 {
	agents_health
{{- if .Values.metrics.enabled }}
	metrics /metrics
{{- end }}
}
{{- end -}}

{{/* Lines of a value, indented by a number of tabs. */}}
{{- define "fairway.lines" -}}
{{- $tabs := repeat (int (index . 0)) "\t" -}}
{{- range $i, $line := index . 1 | trim | splitList "\n" -}}
{{- if $i }}{{ "\n" }}{{ end -}}
{{- if $line }}{{ $tabs }}{{ $line }}{{ end -}}
{{- end -}}
{{- end -}}
