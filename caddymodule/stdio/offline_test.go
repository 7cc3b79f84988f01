package stdio

import (
	"encoding/json"
	"testing"
)

// TestStripListeners wants nothing left of a configuration that listens, stores or writes
// to where others do.
func TestStripListeners(t *testing.T) {
	config, secure, err := stripListeners([]byte(`{
		"admin":{"listen":"localhost:2019","identity":{"identifiers":["a"]},"config":{"load":{"module":"http","url":"http://a"}}},
		"logging":{"sink":{"writer":{"output":"stdout"}},"logs":{
			"default":{"writer":{"output":"stdout"},"encoder":{"format":"console"}},
			"access":{"writer":{"output":"file","filename":"/var/log/a.log"}},
			"none":{"writer":{"output":"discard"}},
			"bare":{}}},
		"apps":{
			"tls":{"automation":{}},"pki":{},"other":{"kept":true},
			"http":{"grace_period":1,"servers":{
				"secure":{"listen":[":443"],"listener_wrappers":[{"wrapper":"tls"}],"routes":[{}]},
				"policies":{"listen":[":80"],"tls_connection_policies":[{}]},
				"plain":{"listen":["127.0.0.1:80"]},
				"disabled":{"listen":[":8443"],"automatic_https":{"disable":true}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	admin := config.Admin
	if got, want := [...]bool{admin.Disabled, *admin.Config.Persist}, [...]bool{true, false}; got != want {
		t.Errorf("admin: disabled, persists: got %t, want %t", got, want)
	}
	if admin.Identity != nil || admin.Config.LoadRaw != nil {
		t.Errorf("admin: got the identity %+v and the load %s, want none", admin.Identity, admin.Config.LoadRaw)
	}
	for name, want := range map[string]string{"default": "stderr", "access": "stderr", "none": "discard", "bare": "stderr"} {
		var writer struct{ Output string }
		if err := json.Unmarshal(config.Logging.Logs[name].WriterRaw, &writer); err != nil || writer.Output != want {
			t.Errorf("log %s goes to %q, want %q", name, writer.Output, want)
		}
	}
	if string(config.Logging.Logs["default"].EncoderRaw) != `{"format":"console"}` || string(config.Logging.Sink.WriterRaw) != `{"output":"stderr"}` {
		t.Errorf("logging: %+v", config.Logging)
	}
	if tls, pki := config.AppsRaw["tls"], config.AppsRaw["pki"]; tls != nil || pki != nil {
		t.Errorf("got the apps tls %s and pki %s, want none", tls, pki)
	}
	if other := string(config.AppsRaw["other"]); other != `{"kept":true}` || config.AppsRaw["agents"] == nil {
		t.Errorf(`got the app other %s, want {"kept":true}; got the app agents %s, want it`, other, config.AppsRaw["agents"])
	}
	var app struct {
		GracePeriod int `json:"grace_period"`
		Servers     map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(config.AppsRaw["http"], &app); err != nil || app.GracePeriod != 1 || app.Servers["secure"]["routes"] == nil {
		t.Errorf("http: %s: %v", config.AppsRaw["http"], err)
	}
	for name, want := range map[string]bool{"secure": true, "policies": true, "plain": false, "disabled": false} {
		server := app.Servers[name]
		if secure[name] != want {
			t.Errorf("server %s: secure %t, want %t", name, secure[name], want)
		}
		if https := string(server["automatic_https"]); https != `{"disable":true}` || server["listen"] == nil {
			t.Errorf(`server %s: got the automatic HTTPS %s at %s, want {"disable":true} and an address`, name, https, server["listen"])
		}
		if w, p := server["listener_wrappers"], server["tls_connection_policies"]; w != nil || p != nil {
			t.Errorf("server %s: got the wrappers %s and the policies %s, want none", name, w, p)
		}
	}
}

func TestStripListeners_rejects(t *testing.T) {
	for _, config := range []string{`{}`, `[]`, `{"apps":{}}`, `{"apps":{"http":[]}}`, `{"apps":{"http":{"servers":[]}}}`, `{"apps":{"http":{"servers":{"a":null}}}}`, `null`} {
		if _, _, err := stripListeners([]byte(config)); err == nil {
			t.Errorf("%s is taken", config)
		}
	}
}

func TestMatchesHost(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		want          bool
	}{
		{"api.example.com", "API.example.com", true},
		{"*.example.com", "api.example.com", true},
		{"*.example.com", "a.b.example.com", false},
		{"*.example.com", ".example.com", false},
		{"*.*.example.com", "a.b.example.com", true},
		{"example.com", "example.org", false},
	} {
		if got := matchesHost(c.pattern, c.host); got != c.want {
			t.Errorf("%s has %s: %t, want %t", c.pattern, c.host, got, c.want)
		}
	}
}
