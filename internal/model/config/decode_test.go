package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// document returns a valid file as raw text, with a place to spoil it.
func document(spoiled string) string {
	return `apiVersion: v1
metadata: {name: shop}
baseDomain: example.com
controlPlane:
  replicas: 2
  fencing:
    credentials:
    - {hostName: control-0, address: "https://192.168.7.10", username: admin, password: S3cr3t-zero}
    - hostName: control-1
      address: https://192.168.7.11
      username: admin
` + spoiled + `
platform: {none: {}}
`
}

func TestAnUnreadableDocumentIsExplainedWithoutItsText(t *testing.T) {
	tests := []struct {
		sentence, data string
		want           []string
	}{
		{
			"an empty file", "",
			[]string{"(file): Invalid value: is empty"},
		},
		{
			"a file of comments", "# nothing\n",
			[]string{"(file): Invalid value: is empty"},
		},
		{
			"two documents", document("      password: S3cr3t") + "---\napiVersion: v1\n",
			[]string{"(file): Invalid value: holds more than one YAML document: give one install configuration"},
		},
		{
			"a second document that is no YAML", document("      password: S3cr3t") + "---\n\"S3cr3t\n",
			[]string{"(file): Invalid value: is not YAML: near line 15: found unexpected end of stream"},
		},
		{
			"a list", "[S3cr3t]",
			[]string{"(file): Invalid value: must be a mapping of fields"},
		},
		{
			"plain text", "S3cr3t",
			[]string{"(file): Invalid value: must be a mapping of fields"},
		},
		{
			"nothing but null", "null",
			nil,
		},
		{
			"a tab for indentation", document("\tpassword: S3cr3t"),
			[]string{"(file): Invalid value: is not YAML: near line 11: found a tab character that violates indentation"},
		},
		{
			"an open quote", document("      password: \"S3cr3t"),
			[]string{"(file): Invalid value: is not YAML: near line 12: found unexpected end of stream"},
		},
		{
			"a password that begins with a star", document("      password: *S3cr3t"),
			[]string{"(file): Invalid value: is not YAML: a value starts with *: put it in quotes"},
		},
		{
			"a password that begins with an exclamation mark", document("      password: !S3cr3t x"),
			[]string{"controlPlane.fencing.credentials[1].password: Invalid value: must be text: put the value in quotes"},
		},
		{
			"a password that begins with two of them", document("      password: !S3cr3t!x"),
			[]string{"(file): Invalid value: is not YAML: near line 11: a value starts with !: put it in quotes"},
		},
		{
			"a password that begins with a percent sign", document("      password: %S3cr3t"),
			[]string{"(file): Invalid value: is not YAML: near line 12: found character that cannot start any token"},
		},
		{
			"a password that begins with an ampersand", document("      password: &S3cr3t"),
			[]string{"controlPlane.fencing.credentials[1].password: Required value: missing password"},
		},
		{
			"a password that is a number", document("      password: 0123"),
			[]string{"controlPlane.fencing.credentials[1].password: Invalid value: must be text: put the value in quotes"},
		},
		{
			"a password that is a date", document("      password: 2024-01-01"),
			[]string{"controlPlane.fencing.credentials[1].password: Invalid value: must be text: put the value in quotes"},
		},
		{
			"a password that is a mapping", document("      password: {S3cr3t: S3cr3t}"),
			[]string{"controlPlane.fencing.credentials[1].password: Invalid value: must be text: put the value in quotes"},
		},
		{
			"a password that is a list", document("      password: [S3cr3t]"),
			[]string{"controlPlane.fencing.credentials[1].password: Invalid value: must be text: put the value in quotes"},
		},
		{
			"a password without the space before it", document("      password: S3cr3t-y\n    - {hostName: control-2, address: 'https://192.168.7.12', username: a, password:S3cr3t-x}"),
			[]string{
				"controlPlane.fencing.credentials: Forbidden: exactly two entries are needed, one for each control plane; there are 3",
				"controlPlane.fencing.credentials[2].(unknown key on line 13): Forbidden: unknown field; known are address, certificateFingerprint, certificateVerification, hostName, password, systemID, tls, username",
				"controlPlane.fencing.credentials[2].password: Required value: missing password",
			},
		},
		{
			"a password without its field", document("      ? S3cr3t\n      password: S3cr3t-x"),
			[]string{"controlPlane.fencing.credentials[1].(unknown key on line 12): Forbidden: unknown field; known are address, certificateFingerprint, certificateVerification, hostName, password, systemID, tls, username"},
		},
		{
			"a field given twice", document("      password: S3cr3t-x\n      username: root\n      password: S3cr3t-y"),
			[]string{
				"controlPlane.fencing.credentials[1].password: Forbidden: the field is given twice, on lines 12 and 14",
				"controlPlane.fencing.credentials[1].username: Forbidden: the field is given twice, on lines 11 and 13",
			},
		},
		{
			"a top-level field given twice", document("      password: S3cr3t-x\nbaseDomain: example.org"),
			[]string{"baseDomain: Forbidden: the field is given twice, on lines 3 and 13"},
		},
		{
			"a merge key", document("      password: S3cr3t-x\n      <<: {a: b}"),
			[]string{"controlPlane.fencing.credentials[1].(unknown key on line 13): Forbidden: unknown field; known are address, certificateFingerprint, certificateVerification, hostName, password, systemID, tls, username"},
		},
		{
			"octal and underscored numbers", document("      password: S3cr3t-x\ncompute: [{replicas: 010}, {replicas: 1_0}, {replicas: 0x10}, {replicas: 99999999999999999999}]"),
			[]string{
				"compute[0].replicas: Invalid value: must be a whole number",
				"compute[1].name: Duplicate value: \"worker\": is the same as compute[0].name",
				"compute[1].replicas: Invalid value: must be a whole number",
				"compute[2].name: Duplicate value: \"worker\": is the same as compute[0].name",
				"compute[2].replicas: Invalid value: must be a whole number",
				"compute[3].name: Duplicate value: \"worker\": is the same as compute[0].name",
				"compute[3].replicas: Invalid value: must be a whole number",
			},
		},
		{
			"control characters", document("      password: \"S3cr3t\"\x01"),
			[]string{"(file): Invalid value: is not YAML: control characters are not allowed"},
		},
		{
			"a fields' parent that is missing its indentation", document("    password: S3cr3t"),
			[]string{
				"controlPlane.fencing.credentials[1].password: Required value: missing password",
				"controlPlane.fencing.password: Forbidden: unknown field; known are credentials",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.sentence, func(t *testing.T) {
			_, err := Parse([]byte(tt.data))
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v", err)
			}
			noSecretsInError(t, tt.sentence, err)
			if tt.want == nil {
				return
			}
			var got []string
			for _, e := range invalid.Errors() {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnchorsAndAliasesAreRead(t *testing.T) {
	c := mustParse(t, []byte(document("      password: &again S3cr3t-x\nsshKey: &none ''\npullSecret: *none")))
	if got := c.ControlPlane.Fencing.Credentials[1].Password.Reveal(); got != "S3cr3t-x" {
		t.Errorf("got %q", got)
	}
}

func TestJSONIsRead(t *testing.T) {
	c := mustParse(t, []byte(`{"apiVersion":"v1","metadata":{"name":"edge"},"baseDomain":"example.com","controlPlane":{"replicas":1},"platform":{"none":{}}}`))
	if c.ClusterDomain() != "edge.example.com" {
		t.Errorf("got %s", c.ClusterDomain())
	}
}

func TestAliasesCannotMakeASmallFileHuge(t *testing.T) {
	ten := func(s string) string { return strings.Repeat(s+", ", 999) + s }
	data := "compute: [" + ten("&p {fencing: {credentials: &c ["+ten("{hostName: a}")+"]}}") + "]"
	data = strings.Replace(data, "&p ", "&p0 ", 1)
	data = strings.ReplaceAll(data, "&p {", "{")
	first := strings.Index(data, "}}, {")
	data = data[:first+2] + strings.Repeat(", *p0", 5000) + "]"
	_, err := Parse([]byte(data))
	if want := "(file): Invalid value: is too large for one install configuration"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %.300v", err)
	}
}

func TestErrorsCountAndOrderTheMistakes(t *testing.T) {
	var hosts []string
	for i := range 12 {
		hosts = append(hosts, fmt.Sprintf("{name: h%d, role: x%d, bootMACAddress: '52:54:00:00:00:%02d', bmc: {address: 'https://10.9.0.%d', username: a, password: S3cr3t}}", i, i, i, i+1))
	}
	_, err := Parse(patched(t, validConfigs(t)["three-one"], "platform: {baremetal: {hosts: ["+strings.Join(hosts, ",")+"]}}"))
	lines := strings.Split(err.Error(), "\n")
	if want := "the install configuration has 12 mistakes:"; lines[0] != want {
		t.Errorf("got %q, want %q", lines[0], want)
	}
	for i, line := range lines[1:] {
		if want := fmt.Sprintf("  platform.baremetal.hosts[%d].role: ", i); !strings.HasPrefix(line, want) {
			t.Errorf("line %d: got %q, want %q", i, line, want)
		}
	}
	if _, err := Parse(nil); !strings.HasPrefix(err.Error(), "the install configuration has 1 mistake:\n  (file): ") {
		t.Errorf("got %q", err)
	}
}

// mistakes returns those of a configuration that was built instead of parsed.
func mistakes(c *InstallConfig) field.ErrorList { return newInvalidError(validate(c, nil)).Errors() }

func TestValidateChecksAConfigurationThatWasBuilt(t *testing.T) {
	c := &InstallConfig{}
	Default(c)
	var got []string
	for _, e := range mistakes(c) {
		got = append(got, e.Field)
	}
	if diff := cmp.Diff([]string{"apiVersion", "baseDomain", "metadata.name", "platform"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if errs := mistakes(&InstallConfig{Compute: []MachinePool{{}}}); len(errs) < 5 {
		t.Errorf("without defaults: got %v", errs)
	}
}
