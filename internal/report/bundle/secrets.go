package bundle

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// secretFiles lists the commands that print the secrets of a host. The secrets
// are read only to recognise them in collected data; they are stored nowhere.
var secretFiles = [][]string{
	{"find", state.FencingDir, "-maxdepth", "1", "-type", "f", "-regex", `.+[.]json`, "-exec", "cat", "{}", "+"},
	{"cat", sitePath},
	{"find", "/etc/holdfast", "-maxdepth", "2", "-type", "f", "-regex", `.+/apiserver/encryption[.]yaml`, "-exec", "cat", "{}", "+"},
	{"find", "/etc/kubernetes", "-maxdepth", "1", "-type", "f", "-regex", `.+[.]conf`, "-exec", "cat", "{}", "+"},
	{"find", "/etc/kubernetes/pki", "/etc/kubernetes/static-pod-resources", "-type", "f", "-regex", `.+[.]\(key\|pem\)`, "-exec", "cat", "{}", "+"},
	{"find", "/var/lib/pcsd", "-maxdepth", "1", "-type", "f", "-exec", "cat", "{}", "+"},
}

// Secrets reads the secrets of a host. It reports files that it cannot read:
// their secrets are recognised only by their pattern.
func Secrets(ctx context.Context, run host.Runner) (known []string, problems []string) {
	run = reached(run)
	for _, line := range secretFiles {
		ctx, cancel := context.WithTimeoutCause(ctx, itemTime, errors.New("no answer in time"))
		data, err := run(ctx, line...)
		cancel()
		known = append(known, secretsOf(data)...)
		if err != nil && len(data) == 0 {
			problems = append(problems, fmt.Sprintf("%s could not be read, so its secrets are not searched for elsewhere", line[1]))
		}
	}
	return known, problems
}

// secretKeys matches the names of secret values in JSON and YAML.
var secretKeys = regexp.MustCompile(`(?i)^(password|passwd|.*token|.*secret|key|joinkey|encryptionroot|client-key-data|auth|identitytoken)$`)

// secretLine matches such a value on a line of YAML.
var secretLine = regexp.MustCompile(`(?m)^\s*(?:token|password|client-key-data|secret):\s*"?([^\s"]+)`)

// keyLine matches a line of a private key.
var keyLine = regexp.MustCompile(`(?m)^[A-Za-z0-9+/]{32,76}={0,2}$`)

// secretsOf returns the secrets in a sequence of JSON values, in YAML, or in
// PEM.
func secretsOf(data []byte) []string {
	var out []string
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var v any
		if decoder.Decode(&v) != nil {
			break
		}
		out = walk("", v, out)
	}
	for _, m := range secretLine.FindAllSubmatch(data, -1) {
		out = append(out, expand(string(m[1]))...)
	}
	if bytes.Contains(data, []byte("PRIVATE KEY")) {
		out = append(out, keyLines(string(data))...)
	}
	return out
}

func walk(name string, v any, out []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			out = walk(k, inner, out)
		}
	case []any:
		for _, inner := range v {
			out = walk(name, inner, out)
		}
	case string:
		if secretKeys.MatchString(name) && v != "" {
			out = append(out, expand(v)...)
		}
	}
	return out
}

// expand returns a secret and the secrets in it: the lines of a key, the
// accounts of a pull secret, both also from base64.
func expand(s string) []string {
	out := []string{s}
	if decoded, err := base64.StdEncoding.DecodeString(s); err == nil && strings.Contains(string(decoded), "PRIVATE KEY") {
		s = string(decoded)
	}
	if strings.Contains(s, "PRIVATE KEY") {
		out = append(out, keyLines(s)...)
	}
	if strings.HasPrefix(s, "{") {
		out = append(out, secretsOf([]byte(s))...)
	}
	return out
}

// keyLines returns the lines of private keys, but not of certificates, which
// are no secret.
func keyLines(text string) []string {
	var out []string
	for _, block := range privateBlock.FindAllString(text, -1) {
		out = append(out, keyLine.FindAllString(block, -1)...)
	}
	return out
}

var privateBlock = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`)
