package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/secret"
)

var update = flag.Bool("update", false, "rewrite golden files")

// validConfigs returns the valid files of the corpus by name.
func validConfigs(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/valid/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(p), ".yaml")] = data
	}
	return files
}

func TestAGoodFileParsesToItsGolden(t *testing.T) {
	for name, data := range validConfigs(t) {
		t.Run(name, func(t *testing.T) {
			c, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("golden differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatMarshalWritesParseReadsBack(t *testing.T) {
	for name, data := range validConfigs(t) {
		t.Run(name, func(t *testing.T) {
			first := mustParse(t, data)
			text, err := Marshal(first)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(values(first), values(mustParse(t, text))); diff != "" {
				t.Errorf("changed on the way (-first +second):\n%s", diff)
			}
		})
	}
}

func TestWhatMarshalWritesOtherReadersTakeForText(t *testing.T) {
	for _, word := range []string{"yes", "OFF", "y", "0123", "0o17", "1_000", "1:30", "null", "~", "2024-01-01", "0x1F", "1e3", ".5", "=", "<<", "-", "# x", "a: b", "\u00e9", "tr\u0000ue"} {
		c := mustParse(t, validConfigs(t)["two-none"])
		c.ControlPlane.Fencing.Credentials[0].Password = secret.Text(word)
		c.ControlPlane.Fencing.Credentials[0].Username = word
		text, err := Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		other := &InstallConfig{}
		if err := sigsyaml.Unmarshal(text, other); err != nil {
			t.Fatal(err)
		}
		own, err := Unmarshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []*InstallConfig{other, own} {
			cred := got.ControlPlane.Fencing.Credentials[0]
			if cred.Password.Reveal() != word || cred.Username != word {
				t.Errorf("%q became %q and %q", word, cred.Username, cred.Password.Reveal())
			}
		}
	}
}

func TestUnmarshalReadsAPartAndRefusesUnknownFields(t *testing.T) {
	c := mustParse(t, validConfigs(t)["two-baremetal"])
	c.ControlPlane.Fencing = nil
	text, err := Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unmarshal(text); err != nil || values(got) != values(c) {
		t.Errorf("%v: got\n%s", err, values(got))
	}
	if _, err := Unmarshal([]byte("fips: true")); err == nil {
		t.Error("an unknown field was read")
	}
}

func mustParse(t testing.TB, data []byte) *InstallConfig {
	t.Helper()
	c, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// values prints a configuration with its secrets, for comparison.
func values(c *InstallConfig) string {
	text, err := Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestTheSpecificationsFencingSpellingIsRead(t *testing.T) {
	c := mustParse(t, validConfigs(t)["two-none"])
	if got := c.ControlPlane.Fencing.Credentials[1].HostName; got != "control-1" {
		t.Errorf("hostname: got %q", got)
	}
	if c.Platform.None == nil {
		t.Error("`none:` without a value must choose the platform")
	}
}

func TestAddressesAreNormalised(t *testing.T) {
	c := mustParse(t, validConfigs(t)["ipv6"])
	if got, want := c.Platform.BareMetal.APIVIPs[0], "fd98::5"; got != want {
		t.Errorf("VIP: got %s, want %s", got, want)
	}
	if got, want := c.Networking.MachineNetwork[0].CIDR, "fd98::/64"; got != want {
		t.Errorf("machine network: got %s, want %s", got, want)
	}
	c = mustParse(t, validConfigs(t)["three-one"])
	if got, want := c.Platform.BareMetal.Hosts[0].BootMACAddress, "52:54:00:00:00:10"; got != want {
		t.Errorf("MAC: got %s, want %s", got, want)
	}
}

func TestAnAbsentComputePoolMeansNoWorkers(t *testing.T) {
	if n := mustParse(t, validConfigs(t)["one"]).ComputeReplicas(); n != 0 {
		t.Errorf("workers: got %d, want 0", n)
	}
}

func TestWarningsNameTheFieldAndNoSecret(t *testing.T) {
	tests := map[string][]string{
		"one": nil,
		"two-baremetal": {
			"controlPlane.fencing.credentials[0].certificateVerification: without it the first machine that answers at that address is trusted as the BMC: it gets the password, and may answer Off for a host that runs; name the BMC's certificate (certificateFingerprint)",
		},
		"dual": {
			"compute: a site of two control planes is expected to have no workers beside them",
		},
	}
	for name, want := range tests {
		if diff := cmp.Diff(want, Warnings(mustParse(t, validConfigs(t)[name]))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	c := mustParse(t, validConfigs(t)["one-two-workers"])
	if got := Warnings(c); len(got) != 1 || !strings.HasPrefix(got[0], "rendezvousIP: without it workers find the control plane by api-int.") {
		t.Errorf("workers of one control plane that nobody names: %q", got)
	}
	c.RendezvousIP = "10.0.0.11"
	if got := Warnings(c); len(got) != 0 {
		t.Errorf("workers of one that is named: %q", got)
	}
	c.CertificateValidityPeriod = "2159h59m"
	if got := Warnings(c); len(got) != 1 || !strings.HasPrefix(got[0], "certificateValidityPeriod: is shorter than 90 days") {
		t.Errorf("short lives of certificates: %q", got)
	}
	c.CertificateValidityPeriod = "2160h"
	if got := Warnings(c); len(got) != 0 || c.CertificateLife() != 2160*time.Hour {
		t.Errorf("certificates of 90 days: %q, %s", got, c.CertificateLife())
	}
	c.CertificateValidityPeriod = ""
	if c.CertificateLife() != 8760*time.Hour {
		t.Errorf("by itself a certificate lives %s", c.CertificateLife())
	}
	c.EtcdQuotaGiB = new(int64(6))
	if got := Warnings(c); len(got) != 0 || c.EtcdQuota() != 6 {
		t.Errorf("a quota of 6 GiB: %q, %d", got, c.EtcdQuota())
	}
	c.EtcdQuotaGiB = new(int64(7))
	if got := Warnings(c); len(got) != 1 || !strings.HasPrefix(got[0], "etcdQuotaGiB: is more than 6: kubelet runs etcd on 1 control plane") {
		t.Errorf("a quota of 7 GiB: %q", got)
	}
	c.EtcdQuotaGiB = nil
	c.ReleaseRegistry = "registry.example.com/holdfast/release:1.0"
	if got := Warnings(c); len(got) != 1 || !strings.HasPrefix(got[0], "releaseRegistry: names no digest: ") {
		t.Errorf("a release by its tag alone: %q", got)
	}
	c.ReleaseRegistry += "@sha256:" + strings.Repeat("a", 64)
	if got := Warnings(c); len(got) != 0 {
		t.Errorf("a release by its digest: %q", got)
	}
	c = mustParse(t, validConfigs(t)["two-baremetal"])
	c.ControlPlane.Fencing.Credentials[1].TLS = bmc.TLSLegacy
	if got := Warnings(c); len(got) != 2 || !strings.HasPrefix(got[1], "controlPlane.fencing.credentials[1].tls: ") {
		t.Errorf("got %q", got)
	}
	c.ControlPlane.Fencing.Credentials[0].CertificateFingerprint = strings.Repeat("AB:", 31) + "cd"
	if got := Warnings(c); len(got) != 1 {
		t.Errorf("with the certificate named: %q", got)
	}
	c = mustParse(t, validConfigs(t)["two-baremetal"])
	c.ControlPlane.Fencing.Credentials[0].Address = "https://192.168.5.77"
	want := "controlPlane.fencing.credentials[0].address: lies in a machine network; a BMC on a network of its own can still be reached when that one fails"
	if got := Warnings(c); len(got) != 2 || got[1] != want {
		t.Errorf("got %q", got)
	}
}

func TestPrintingAConfigurationShowsNoSecret(t *testing.T) {
	for name, data := range validConfigs(t) {
		c := mustParse(t, data)
		var cred FencingCredential
		if f := c.ControlPlane.Fencing; f != nil {
			cred = f.Credentials[0]
		}
		js, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out := []string{string(js)}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out = append(out, fmt.Sprintf(verb, c), fmt.Sprintf(verb, *c), fmt.Sprintf(verb, cred),
				fmt.Sprintf(verb, cred.Password), fmt.Sprintf(verb, c.PullSecret), fmt.Sprintf(verb, c.Proxy))
		}
		for _, s := range out {
			noSecrets(t, name, s)
		}
	}
}

// marker is part of every password in the corpus; pullMarker is its form in the
// pull secret.
const (
	marker     = "S3cr3t"
	pullMarker = "dXNlcjpTM2NyM3Q"
)

func noSecrets(t testing.TB, name, text string) {
	t.Helper()
	hexMarker := fmt.Sprintf("%x", marker)
	for _, m := range []string{marker, pullMarker, hexMarker} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(m)) {
			t.Errorf("%s: a secret is shown: %s", name, text)
			return
		}
	}
}

// noSecretsInError prints an error in many ways and looks for secrets.
func noSecretsInError(t testing.TB, name string, err error) {
	t.Helper()
	outs := []string{err.Error()}
	js, _ := json.Marshal(err)
	outs = append(outs, string(js))
	verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%d"}
	for _, verb := range verbs {
		outs = append(outs, fmt.Sprintf(verb, err), fmt.Sprintf(verb, fmt.Errorf("parse: %w", err)))
	}
	if invalid, ok := err.(*InvalidError); ok { //nolint:errorlint // Parse returns it unwrapped
		js, _ := json.Marshal(invalid.Errors())
		outs = append(outs, string(js))
		for _, e := range invalid.Errors() {
			for _, verb := range verbs {
				outs = append(outs, fmt.Sprintf(verb, *e), fmt.Sprintf(verb, e))
			}
		}
	}
	for _, s := range outs {
		noSecrets(t, name, s)
	}
}

func BenchmarkParse(b *testing.B) {
	data := validConfigs(b)["dual"]
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

// TestHowLongOwnCertificatesLive: never longer than the site's period, as far as that is known.
func TestHowLongOwnCertificatesLive(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		own, period, want time.Duration
	}{
		{120 * day, CertificateLife, 120 * day},
		{120 * day, 90 * day, 90 * day},
		{120 * day, 10 * time.Minute, 10 * time.Minute},
		{CertificateLife, CertificateLife, CertificateLife},
		{120 * day, 0, 120 * day},               // nobody knows it
		{120 * day, 9 * time.Minute, 120 * day}, // no site may have it
		{120 * day, -10 * time.Minute, 120 * day},
	} {
		if got := ShorterLife(c.own, c.period); got != c.want {
			t.Errorf("of %s, in a site with %s: %s, want %s", c.own, c.period, got, c.want)
		}
	}
	for text, want := range map[string]time.Duration{
		"certificateValidityPeriod: 10m": 10 * time.Minute, "baseDomain: example.test": CertificateLife,
		"certificateValidityPeriod: nonsense": CertificateLife,
		"":                                    0, "{": 0, "colour: red": 0,
	} {
		if got := PeriodOf(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// docs/facts/findings.md#installer, D10: forms that others accept for a reason
// are no mistake here.
func TestWhatOtherInstallersAcceptIsAccepted(t *testing.T) {
	corpus := validConfigs(t)
	parse := func(base, patch string) *InstallConfig {
		t.Helper()
		return mustParse(t, patched(t, corpus[base], patch))
	}
	c := parse("one", `proxy: {httpProxy: 'http://proxy.example.com:3128', noProxy: 'example.com, 10.1.0.0/16, '}`)
	if got := c.NoProxy(); !strings.Contains(got, ",example.com,") || strings.Contains(got, ",,") || strings.HasPrefix(got, ",") {
		t.Errorf("a list that ends with a comma: %s", got)
	}
	parse("one", `{featureSet: CustomNoUpgrade, featureGates: [Alpha=True, Beta=0]}`)
	for entry, want := range map[string]bool{"A=True": true, "A=TRUE": true, "A=1": true, "A=False": false, "A=f": false} {
		if gate, ok := ParseFeatureGate(entry); !ok || gate != (FeatureGate{"A", want}) {
			t.Errorf("%s: %+v, %t", entry, gate, ok)
		}
	}
	const entry = `{"username":"clerk","password":"S3cr3t"}`
	c = parse("one", `{releaseRegistry: r.example.com/holdfast/release, pullSecret: '{"auths":{"r.example.com":`+entry+`}}'}`)
	if got := c.ReleaseAuth().Reveal(); got != `{"auths":{"r.example.com":`+entry+`}}` {
		t.Error("a registry's name and password do not reach the host")
	}
	c = parse("three-one", machines(`{name: cp-1, bootMACAddress: '52:54:00:00:00:11'}`))
	text, err := Marshal(c)
	if err != nil || strings.Count(string(text), "bmc:") != 3 {
		t.Errorf("a host without a BMC: %v\n%s", err, text)
	}
	if diff := cmp.Diff(c, mustParse(t, text)); diff != "" {
		t.Error(diff)
	}
}
