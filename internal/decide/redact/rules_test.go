package redact

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestAShortSecretIsTakenOutOfBase64Too(t *testing.T) {
	const secret = "ab1z"
	for _, before := range []string{"", "x", "xy"} {
		text := base64.StdEncoding.EncodeToString([]byte(before + secret))
		if got := New(secret).Text(text); !strings.Contains(got, Mark) || leaks(got, secret) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestBase64ThatIsCutOffAnywhereIsLookedInto(t *testing.T) {
	whole := base64.StdEncoding.EncodeToString([]byte(`{"user":"admin","password":"hunter22 and more"}`))
	for end := 48; end <= len(whole); end++ {
		if got := New().Text("data: " + whole[:end]); got != "data: "+Mark {
			t.Errorf("cut off at %d: %q", end, got)
		}
	}
}

// The texts are of 32 characters, the shortest that are decoded, and need each of
// the last twelve.
func TestEachCharacterOfBase64MayStandInASecret(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte("token: hunter22"))
	for _, c := range "AZaz09+/-_" {
		for _, text := range []string{secret + strings.Repeat(string(c), 12), strings.Repeat(string(c), 12) + secret} {
			if got := New().Text(text); got != Mark {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	}
}

func TestEachCharacterOfABootstrapTokenMayStandInIt(t *testing.T) {
	for _, c := range "az09" {
		token := strings.Repeat(string(c), 6) + "." + strings.Repeat(string(c), 16)
		if got := New().Text("kubeadm join " + token); got != "kubeadm join "+Mark {
			t.Errorf("%q becomes %q", token, got)
		}
	}
}

func TestTheLongestOfTwoSecretsIsTakenOutWhole(t *testing.T) {
	for _, r := range []*Redactor{New("hunter", "hunter22"), New("hunter22", "hunter")} {
		if got := r.Text("it is hunter22"); got != "it is "+Mark {
			t.Errorf("%q", got)
		}
	}
}

func TestAKnownSecretIsTakenOutOfAPageAndOfAFileInALine(t *testing.T) {
	for text, secret := range map[string]string{
		`<b>a&lt;b&amp;cd</b>`:  "a<b&cd",
		"two lines: a&b\ncd":    "a&b\ncd",
		`line: "a&b\ncd"`:       "a&b\ncd",
		"Pj4+Pz8/":              ">>>???",
		"Pj4-Pz8_":              ">>>???",
		`line: "a\u0026b\ncd"`:  "a&b\ncd",
		"  a secret's ends  ":   "  a secret's ends\n",
		"of four letters: abcd": "abcd",
	} {
		if got := New(secret).Text(text); !strings.Contains(got, Mark) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestNothingButTheSecretIsTakenOut(t *testing.T) {
	for text, want := range map[string]string{
		`password: hunter22, then`:              `password: <>, then`,
		`{"password":"hunter22","a":1}`:         `{"password":"<>","a":1}`,
		`{\"password\":\"hunter22\",\"a\":1}`:   `{\"password\":\"<>\",\"a\":1}`,
		`password='hunter22' on`:                `password='<>' on`,
		`Authorization: Basic dXNlcjpodW50ZXI=`: `Authorization: Basic <>`,
		`bearer abcdefgh12`:                     `bearer <>`,
		`https://admin:hunter22@10.0.0.1/x`:     `https://admin:<>@10.0.0.1/x`,
		`stats auth admin:hunter22 # here`:      `stats auth <> # here`,
		"one\npassword: a1b2\nthree":            "one\npassword: <>\nthree",
	} {
		if got := New().Text(text); got != strings.ReplaceAll(want, "<>", Mark) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestEachNameOfASecretHidesItsValue(t *testing.T) {
	for _, name := range []string{
		"password", "passwd", "Passphrase", "secret", "token", "credential", "auth_pass", "private-key", "private_key", "privateKey",
		"client-key-data", "certificate-key", "api-key", "apiKey", "dockerconfigjson", "encryption-key", "encryptionKey",
	} {
		if got, want := New().Text(name+": hunter22"), name+": "+Mark; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
