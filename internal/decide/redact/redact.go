// Package redact removes secrets from texts: known ones, in every form in which
// they may be written, and everything that looks like one. It is the second
// guard: what is collected and logged is chosen so that it holds no secret.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// Mark replaces a secret.
const Mark = secret.Redacted

// shortest is the least length of a known secret that is searched for: a shorter
// one would be found in every other word.
const shortest = 4

// Redactor removes secrets. Its zero value knows none.
type Redactor struct {
	known []string // in all their forms, the longest first
}

// New returns a redactor that knows the given secrets.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		s = strings.TrimSpace(s)
		if len(s) >= shortest {
			r.known = append(r.known, forms(s)...)
		}
	}
	slices.SortFunc(r.known, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	r.known = slices.Compact(r.known)
	return r
}

// forms returns the ways in which a secret may be written in a text.
func forms(s string) []string {
	quoted, _ := json.Marshal(s) // a string always marshals
	out := []string{s, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), strings.ReplaceAll(s, "\n", "\\n")}
	for shift := range 3 {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			out = append(out, core(encoding, s, shift))
		}
	}
	return out
}

// core returns the part of the base64 text of a secret after shift other bytes
// that depends on the secret alone: without the characters that also hold bits
// of its neighbours.
func core(encoding *base64.Encoding, s string, shift int) string {
	text := strings.TrimRight(encoding.EncodeToString([]byte(strings.Repeat("\x00", shift)+s)), "=")
	from := (shift*8 + 5) / 6
	until := (shift + len(s)) * 8 / 6
	return text[from:until]
}

// shape describes what a kind of secret looks like, and its replacement.
type shape struct {
	// needs holds lower-case words. Each such text contains at least one of them,
	// and to search for them costs only a fraction of the regular expression.
	needs []string
	looks *regexp.Regexp
	put   string
}

const keyWords = `(?i:password|passwd|passphrase|secret|token|credential|auth_pass|private-?_?key|client-key-data|certificate-?key|api-?key|dockerconfigjson|encryption-?key)`

// keyNeeds holds lower-case words such that each match of keyWords contains one.
var keyNeeds = []string{"passw", "passphrase", "secret", "token", "credential", "auth_pass", "key", "dockerconfigjson"}

// blocks are the shapes that span several lines.
var blocks = []shape{
	{[]string{"private key"}, regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), Mark},
	{[]string{"private key"}, regexp.MustCompile(`(?s)\A[A-Za-z0-9+/=\s]*-----END [A-Z ]*PRIVATE KEY-----`), Mark},
	{[]string{`"value"`}, regexp.MustCompile(`("name"\s*:\s*"[^"]*` + keyWords + `[^"]*"\s*,\s*"value"\s*:\s*")(?:[^"\\]|\\.)*`), "${1}" + Mark},
}

// shapes are those within one line.
var shapes = []shape{
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), Mark}, // a JSON web token
	{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[a-z0-9._~+/=-]{8,}`), "${1}" + Mark},
	{[]string{"://"}, regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s/@:"']*:)[^\s/@"']+@`), "${1}" + Mark + "@"},
	{[]string{"<nvpair"}, regexp.MustCompile(`(<nvpair\b[^>]*\bname="[^"]*` + keyWords + `[^"]*"[^>]*\bvalue=")[^"]*`), "${1}" + Mark},
	{[]string{"<nvpair"}, regexp.MustCompile(`(<nvpair\b[^>]*\bvalue=")[^"]*("[^>]*\bname="[^"]*` + keyWords + `)`), "${1}" + Mark + "${2}"},
	{[]string{"auth_pass", "stats"}, regexp.MustCompile(`(?i)(\bauth_pass\s+|\bstats\s+auth\s+)\S+`), "${1}" + Mark},
	{[]string{`"auth"`}, regexp.MustCompile(`("auth"\s*:\s*")[^"]*`), "${1}" + Mark},
	{keyNeeds, regexp.MustCompile(`(--?[A-Za-z-]*` + keyWords + ` )['"]?[^\s'"-][^\s'"]*`), "${1}" + Mark},
}

// bootstrap matches a bootstrap token.
var bootstrap = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// tokenRun is the length of the run of letters and digits in a bootstrap token's
// secret.
const tokenRun = 16

// run reports whether a line has at least so many characters of a set in a row.
func run(line string, least int, in func(byte) bool) bool {
	n := 0
	for i := range len(line) {
		if !in(line[i]) {
			n = 0
			continue
		}
		if n++; n >= least {
			return true
		}
	}
	return false
}

func small(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' }

func encoded(b byte) bool {
	return small(b) || b >= 'A' && b <= 'Z' || b == '+' || b == '/' || b == '-' || b == '_'
}

// lower returns a text in lower case, with only the letters A to Z changed.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

func hasAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// A value in quotes, which may also end with its line if it was cut off:
// quotedTwice is for JSON within JSON, where an inner quote is \\\", quotedOnce
// for JSON, where it is \".
const (
	quotedTwice = `\\"(?:[^"\\]|\\\\\\"|\\\\\\\\|\\\\[^"\\]|\\[^"\\])*(?:\\"|\z)`
	quotedOnce  = `"(?:[^"\\]|\\.)*(?:"|\z)`
)

// pair matches a name that stands for a secret, and its value.
var pair = regexp.MustCompile(`([\w.-]*` + keyWords + `[\w.-]*)(\\?["']?\s*[:=]\s*)(` + quotedTwice + `|` + quotedOnce + `|'[^']*'|[^\s,;&"'}\]]+)`)

// harmless matches names that only belong to a secret: its place, its lifetime,
// its identity.
var harmless = regexp.MustCompile(`(?i)(?:name|names|ref|refs|path|file|dir|seconds|ttl|expiry|expires|expiration|type|id|kind|hash|warning|count|retransmit|retransmits_before_loss_const|timeout|coefficient|controller|class|mode|account-?token|version|namespace|url|uri|address|policy|rotation|delay|groups|attribute)$`)

// plain matches a value that is no secret: a number, a duration, yes or no.
var plain = regexp.MustCompile(`(?i)^\\?["']?(?:\d{0,6}(?:\.\d+)?(?:ms|s|m|h)?|true|false|null|none|yes|no|\{|\[|\||>-?|<redacted>)\\?["']?$`)

// blob matches text that may be base64 of something longer.
var blob = regexp.MustCompile(`[A-Za-z0-9+/_-]{32,}={0,2}`)

// blobRun is the least length of a blob.
const blobRun = 32

// deep is the number of nested encodings that are looked into.
const deep = 3

// Text returns a text without secrets.
func (r *Redactor) Text(text string) string { return r.text(text, deep) }

func (r *Redactor) text(text string, depth int) string {
	for _, s := range r.known {
		text = strings.ReplaceAll(text, s, Mark)
	}
	if whole := lower(text); hasAny(whole, []string{"private key", `"value"`}) {
		for _, s := range blocks {
			if hasAny(whole, s.needs) {
				text = s.looks.ReplaceAllString(text, s.put)
			}
		}
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(r.line(line, depth))
	}
	return out.String()
}

// line removes the secrets within one line.
func (r *Redactor) line(line string, depth int) string {
	words := lower(line)
	for _, s := range shapes {
		if hasAny(words, s.needs) {
			line = s.looks.ReplaceAllString(line, s.put)
		}
	}
	if run(line, tokenRun, small) {
		line = bootstrap.ReplaceAllString(line, Mark)
	}
	if hasAny(words, keyNeeds) {
		line = pair.ReplaceAllStringFunc(line, value)
	}
	if depth > 0 && run(line, blobRun, encoded) {
		line = blob.ReplaceAllStringFunc(line, func(b string) string { return r.blob(b, depth-1) })
	}
	return line
}

// value keeps a name and removes its value, if that is a secret.
func value(found string) string {
	m := pair.FindStringSubmatch(found)
	if harmless.MatchString(strings.Trim(m[1], `\"'`)) || plain.MatchString(m[3]) {
		return found
	}
	quote := ""
	if i := strings.IndexAny(m[3], `"'`); i == 0 || i == 1 && m[3][0] == '\\' {
		quote = m[3][:i+1]
	}
	return m[1] + m[2] + quote + Mark + quote
}

// blob removes a text whose decoded form holds a secret. The text may have been
// cut off anywhere: what can be decoded of it counts.
func (r *Redactor) blob(text string, depth int) string {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		decoded, _ := encoding.DecodeString(strings.TrimRight(text, "="))
		if r.text(string(decoded), depth) != string(decoded) {
			return Mark
		}
	}
	return text
}
