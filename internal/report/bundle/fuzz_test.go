package bundle

import (
	"slices"
	"strings"
	"testing"
)

// FuzzSecretsOf reads arbitrary files for secrets.
func FuzzSecretsOf(f *testing.F) {
	f.Add([]byte(`{"password":"hush-hush"} {"token":["a-b-c"]}`))
	f.Add([]byte("token: \"abcdef.0123456789abcdef\"\nclient-key-data: QUJD\n"))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("A", 64) + "\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if slices.Contains(secretsOf(data), "") {
			t.Errorf("%q: nothing would be taken out everywhere", data)
		}
	})
}
