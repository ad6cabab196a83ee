package config

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// FuzzParse shows that no input makes Parse panic, that what it accepts
// survives writing and reading, and that its errors hold no secret.
func FuzzParse(f *testing.F) {
	for _, data := range validConfigs(f) {
		f.Add(data)
	}
	corpus := validConfigs(f)
	for _, r := range rules {
		f.Add(patched(f, corpus[r.base], secretPatch, r.patch))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			checkRefusal(t, data, err)
			return
		}
		first, err := Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(first)
		if err != nil {
			t.Fatalf("what Marshal wrote is refused: %v\n%s", err, first)
		}
		if second, _ := Marshal(again); !bytes.Equal(first, second) {
			t.Fatalf("first\n%s\nsecond\n%s", first, second)
		}
	})
}

// checkRefusal checks that an error keeps its promise. The secrets of a spoiled
// file are those in its places for secrets; the rest of the text may be shown.
func checkRefusal(t *testing.T, data []byte, err error) {
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Errors()) == 0 {
		t.Fatalf("an error without mistakes: %v", err)
	}
	c := &InstallConfig{}
	decode(data, c)
	for _, s := range secretsOf(c) {
		// Short secrets occur in any text, some are words of our messages, and some
		// are shown because the file repeats them elsewhere.
		if len(s) < 8 || bytes.Count(data, []byte(s)) != 1 || strings.Contains(ownWords(t), s) {
			continue
		}
		if bytes.Contains([]byte(err.Error()), []byte(s)) {
			t.Fatalf("the secret %q is shown: %v", s, err)
		}
	}
}

// ownWords returns the text of all messages.
func ownWords(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func secretsOf(c *InstallConfig) []string {
	out := []string{c.PullSecret.Reveal()}
	if f := c.ControlPlane.Fencing; f != nil {
		for _, cred := range f.Credentials {
			out = append(out, cred.Password.Reveal())
		}
	}
	if bm := c.Platform.BareMetal; bm != nil {
		for _, h := range bm.Hosts {
			out = append(out, h.BMC.Password.Reveal())
		}
	}
	return out
}
