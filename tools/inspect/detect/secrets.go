package detect

import (
	"bytes"
	"cmp"
	"math"
	"regexp"
	"strings"
	"sync"
)

// Secrets returns the detector of API keys, access tokens, private keys, and passwords in URLs and in members that are
// named so.
//
// Keywords of all rules are found by their first three bytes. The expression of a rule runs only on the bytes after one of
// its keywords.
func Secrets() detector { return allSecrets() }

var allSecrets = sync.OnceValue(func() *secrets {
	s := &secrets{byStart: make(map[string][]keyword)}
	for i := range secretRules {
		r := &secretRules[i]
		compiled := regexp.MustCompile(`^(?:` + r.expression + `)`)
		for word := range strings.SplitSeq(r.keywords, " ") {
			s.add(keyword{word, r, compiled})
		}
	}
	return s
})

// A secretRule describes one kind of secret.
type secretRule struct {
	label      string
	keywords   string // separated by spaces; at least three bytes each. They are what the expression begins with
	expression string // a group, if there is one, is the secret
	fold       bool   // case of the keywords does not matter
	inner      bool   // the keyword may follow a letter, a digit or _
	entropy    float64
	window     int // bytes after the beginning of the keyword that the expression sees; 0 means usualWindow
}

const usualWindow = 300

// secretRules are the project's own list of common formats, as the providers document them.
var secretRules = [...]secretRule{
	{label: "aws-access-key", keywords: "AKIA ASIA ABIA ACCA", expression: `A[KSBC][IC]A[A-Z2-7]{16}\b`, entropy: 2.5},
	{label: "github-token", keywords: "ghp_ gho_ ghu_ ghs_ ghr_", expression: `gh[pousr]_[A-Za-z0-9]{36,}`, entropy: 3},
	{label: "github-token", keywords: "github_pat_", expression: `github_pat_[A-Za-z0-9_]{60,}`, entropy: 3},
	{label: "gitlab-token", keywords: "glpat- gldt- glrt- glptt-", expression: `gl(?:pat|dt|rt|ptt)-[A-Za-z0-9_.-]{20,}`, entropy: 3},
	{label: "slack-token", keywords: "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xapp-", expression: `x(?:ox[abpres]|app)-[A-Za-z0-9-]{10,}`, entropy: 2.5},
	{label: "slack-webhook", keywords: "hooks.slack.com/services/", expression: `hooks\.slack\.com/services/(T[A-Za-z0-9]+/B[A-Za-z0-9]+/[A-Za-z0-9]{20,})`},
	{label: "stripe-key", keywords: "sk_live_ sk_test_ rk_live_ rk_test_", expression: `[sr]k_(?:live|test)_[A-Za-z0-9]{10,}`, entropy: 2.5},
	{label: "webhook-secret", keywords: "whsec_", expression: `whsec_[A-Za-z0-9+/=]{20,}`, entropy: 3},
	{label: "model-api-key", keywords: "sk-", expression: `sk-[A-Za-z0-9_-]{20,}`, entropy: 3.5},
	{label: "google-api-key", keywords: "AIza", expression: `AIza[A-Za-z0-9_-]{35}`, entropy: 3},
	{label: "google-oauth-token", keywords: "ya29.", expression: `ya29\.[A-Za-z0-9_-]{20,}`, entropy: 3, window: 1100},
	{label: "google-client-secret", keywords: "GOCSPX-", expression: `GOCSPX-[A-Za-z0-9_-]{20,40}`},
	{label: "sendgrid-key", keywords: "SG.", expression: `SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}`, entropy: 3},
	{label: "mailgun-key", keywords: "key-", expression: `key-[0-9a-f]{32}\b`, entropy: 3},
	{label: "npm-token", keywords: "npm_", expression: `npm_[A-Za-z0-9]{36}\b`, entropy: 3},
	{label: "pypi-token", keywords: "pypi-", expression: `pypi-[A-Za-z0-9_-]{50,}`, entropy: 3, window: 1100},
	{label: "huggingface-token", keywords: "hf_", expression: `hf_[A-Za-z0-9]{30,60}\b`, entropy: 3},
	{label: "digitalocean-token", keywords: "dop_v1_ doo_v1_ dor_v1_", expression: `do[por]_v1_[a-f0-9]{64}`},
	{label: "shopify-token", keywords: "shpat_ shpca_ shppa_ shpss_", expression: `shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}`},
	{label: "databricks-token", keywords: "dapi", expression: `dapi[0-9a-f]{32}(?:-\d)?\b`, entropy: 3},
	{label: "vault-token", keywords: "hvs. hvb.", expression: `hv[sb]\.[A-Za-z0-9_-]{24,}`, entropy: 3},
	{label: "linear-key", keywords: "lin_api_", expression: `lin_api_[A-Za-z0-9]{40}`},
	{label: "notion-token", keywords: "ntn_ secret_", expression: `(?:ntn|secret)_[A-Za-z0-9]{40,60}\b`, entropy: 3.5},
	{label: "atlassian-token", keywords: "ATATT3 ATCTT3", expression: `AT[AC]TT3[A-Za-z0-9_=-]{50,}`},
	{label: "grafana-token", keywords: "glsa_ glc_", expression: `gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}`, entropy: 3, window: 420},
	{label: "new-relic-key", keywords: "NRAK-", expression: `NRAK-[A-Z0-9]{27}`},
	{label: "postman-key", keywords: "PMAK-", expression: `PMAK-[a-f0-9]{24}-[a-f0-9]{34}`},
	{label: "azure-key", keywords: "key=", expression: `(?i:key)=([A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{43}=)`, fold: true, inner: true},
	{label: "age-secret-key", keywords: "AGE-SECRET-KEY-1", expression: `AGE-SECRET-KEY-1[A-Z0-9]{58}`},
	{label: "telegram-token", keywords: ":AA", expression: `:(AA[A-Za-z0-9_-]{33})\b`, inner: true, entropy: 3.5},
	{label: "jwt", keywords: "eyJ", expression: `eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`, window: 12 << 10},
	{
		label: "private-key", keywords: "-----BEGIN", inner: true, window: 16 << 10,
		expression: `(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*)`,
	},
	{label: "url-password", keywords: "://", expression: `://[^\s/:@?#"'<>]{0,}:([^\s/@?#"'<>]{3,})@`, inner: true},
	{label: "bearer-token", keywords: "bearer", expression: `(?i:bearer)[ +]([A-Za-z0-9._~+/-]{20,}=*)`, fold: true, entropy: 3.5, window: 2100},
	{
		// The keywords are parts of api_key, secret, token and password. They lack the first letters, because a keyword is found
		// by its first three bytes, and these three are in fewer ordinary words.
		label: "secret", keywords: "pi_key pikey pi-key ecret token sswo sswd", fold: true, inner: true, entropy: 3.2,
		expression: `(?i:pi[_-]?key|ecret|token|sswo?r?d)["']?\s{0,3}[:=]\s{0,3}["']?([^\s"',;&<>()\[\]{}]{10,})`,
	},
}

type keyword struct {
	text       string
	rule       *secretRule
	expression *regexp.Regexp
}

// secrets finds keywords by their first three bytes, with a filter before the map.
type secrets struct {
	filter  keywordFilter
	byStart map[string][]keyword
}

// add adds a keyword, with all cases of its beginning if case does not matter.
func (s *secrets) add(k keyword) {
	starts := []string{""}
	for _, c := range []byte(k.text[:3]) {
		variants := []byte{c}
		if k.rule.fold && isLetter[c] {
			variants = []byte{c | 0x20, c &^ 0x20}
		}
		var longer []string
		for _, start := range starts {
			for _, v := range variants {
				longer = append(longer, start+string(v))
			}
		}
		starts = longer
	}
	for _, start := range starts {
		s.filter.add(start)
		s.byStart[start] = append(s.byStart[start], k)
	}
}

// wants implements Detector.
func (*secrets) wants(t traits, name nameKind) bool { return t&hasKeyword != 0 || name&secretName != 0 }

// find implements Detector.
func (s *secrets) find(hits []hit, name nameKind, text []byte) []hit {
	if name&secretName != 0 && looksSecret(text) {
		return append(hits, hit{Start: 0, End: len(text), Label: "secret"})
	}
	if len(text) < 3 {
		return hits
	}
	hash, last := rolled(rolled(0, text[0]), text[1]), 0
	for i, c := range text[2:] {
		hash = rolled(hash, c)
		if s.filter[hash>>6]>>(hash&63)&1 == 0 || i < last {
			continue
		}
		for _, k := range s.byStart[string(text[i:i+3])] {
			if h, ok := k.match(text, i); ok && h.Start >= last {
				hits, last = append(hits, h), h.End
				break
			}
		}
	}
	return hits
}

// match applies the rule of a keyword at a position.
func (k *keyword) match(text []byte, at int) (h hit, ok bool) {
	if len(text)-at < len(k.text) || !k.rule.inner && at > 0 && isWord[text[at-1]] {
		return h, false
	}
	if word := text[at : at+len(k.text)]; string(word) != k.text && (!k.rule.fold || !strings.EqualFold(string(word), k.text)) {
		return h, false
	}
	window := cmp.Or(k.rule.window, usualWindow)
	found := k.expression.FindSubmatchIndex(text[at:min(at+window, len(text))])
	if found == nil {
		return h, false
	}
	from, to := at+found[0], at+found[1]
	if len(found) > 2 {
		from, to = at+found[2], at+found[3]
	}
	if k.rule.entropy > 0 && entropy(text[from:to]) < k.rule.entropy {
		return h, false
	}
	return hit{Start: from, End: to, Label: k.rule.label}, true
}

// looksSecret reports whether the value of a member that is named like a secret may be one.
func looksSecret(text []byte) bool {
	return len(text) >= 8 && len(text) <= 8<<10 && !bytes.ContainsAny(text, " \n\t{}<>[]") && entropy(text) >= 2.7
}

// entropy returns the Shannon entropy of a text in bits per byte.
func entropy(text []byte) float64 {
	var count [256]int
	for _, c := range text {
		count[c]++
	}
	sum, n := 0.0, float64(len(text))
	for _, k := range count {
		if k > 0 {
			p := float64(k) / n
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
