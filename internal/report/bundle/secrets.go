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

// secretFiles are where a host has its secrets. They are read so that they can be
// told when they turn up in what is collected; they go nowhere.
var secretFiles = [][]string{
	{"find", state.FencingDir, "-maxdepth", "1", "-type", "f", "-regex", `.+[.]json`, "-exec", "cat", "{}", "+"},
	{"cat", sitePath},
	{"find", "/etc/holdfast", "-maxdepth", "2", "-type", "f", "-regex", `.+/apiserver/encryption[.]yaml`, "-exec", "cat", "{}", "+"},
	{"find", "/etc/kubernetes", "-maxdepth", "1", "-type", "f", "-regex", `.+[.]conf`, "-exec", "cat", "{}", "+"},
	{"find", "/etc/kubernetes/pki", "/etc/kubernetes/static-pod-resources", "-type", "f", "-regex", `.+[.]key`, "-exec", "cat", "{}", "+"},
	{"find", "/var/lib/pcsd", "-maxdepth", "1", "-type", "f", "-exec", "cat", "{}", "+"},
}

// Secrets reads the secrets of a host. What cannot be read is said: the looks of
// secrets are all that guards those.
func Secrets(ctx context.Context, run host.Runner) (known []string, problems []string) {
	run = reached(run)
	for _, line := range secretFiles {
		ctx, cancel := context.WithTimeoutCause(ctx, itemTime, errors.New("no answer in time"))
		data, err := run(ctx, line...)
		cancel()
		known = append(known, secretsOf(data)...)
		if err != nil && len(data) == 0 {
			problems = append(problems, fmt.Sprintf("%s could not be read to be looked for elsewhere", line[1]))
		}
	}
	return known, problems
}

// secretKeys are the names of values that are secrets, in JSON and YAML.
var secretKeys = regexp.MustCompile(`(?i)^(password|passwd|.*token|.*secret|key|joinkey|encryptionroot|client-key-data|auth|identitytoken)$`)

// secretLine is such a value on a line of YAML.
var secretLine = regexp.MustCompile(`(?m)^\s*(?:token|password|client-key-data|secret):\s*"?([^\s"]+)`)

// keyLine is a line of a private key.
var keyLine = regexp.MustCompile(`(?m)^[A-Za-z0-9+/]{32,76}={0,2}$`)

// secretsOf are the secrets in JSON values that follow each other, in YAML, or
// in PEM.
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

// expand is a secret with those that it is made of: lines of a key, the accounts
// of a pull secret, what it is in base64.
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

// keyLines are the lines of private keys alone: those of certificates are no
// secret.
func keyLines(text string) []string {
	var out []string
	for _, block := range privateBlock.FindAllString(text, -1) {
		out = append(out, keyLine.FindAllString(block, -1)...)
	}
	return out
}

var privateBlock = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`)
