package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAFileIsComparedWithWhatTheClusterKeepsOfIt: the cluster's copy is what JSON shows,
// so no secret is in it, and none is in what is told.
func TestAFileIsComparedWithWhatTheClusterKeepsOfIt(t *testing.T) {
	text, err := os.ReadFile("../../../docs/examples/two-hosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	now, err := Made(kept)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := Compare(now, file); err != nil || len(same) > 0 {
		t.Fatalf("the same: %+v, %v", same, err)
	}
	file.SSHKey = "# of the night shift\nssh-ed25519 AAAA other\n"
	file.ControlPlane.Fencing.Credentials[1].Address = "https://192.0.2.77"
	file.ControlPlane.Fencing.Credentials[1].Password = "another-secret"
	file.Networking.MachineNetwork[0].CIDR = "192.0.2.0/24"
	file.Proxy = &Proxy{HTTPProxy: "http://me:proxy-secret@proxy.example:3128"}
	found, err := Compare(now, file)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, d := range found {
		told = append(told, d.Path+": "+d.How)
		if strings.Contains(d.Now+d.File, "-secret") {
			t.Errorf("%+v has a secret", d)
		}
	}
	for _, want := range []string{
		"sshKey: holdfast config apply --install-config", "controlPlane.fencing.credentials[1].address: holdfast fencing rotate",
		"networking.machineNetwork[0].cidr: was decided at the installation; hosts keep what they have",
	} {
		if !slices.Contains(told, want) {
			t.Errorf("%q is not in %q", want, told)
		}
	}
	if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, "proxy.") }) || slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "password") }) {
		t.Errorf("%q", told)
	}
	if keys := file.AuthorizedKeys(); !slices.Equal(keys, []string{"ssh-ed25519 AAAA other"}) {
		t.Errorf("keys %q", keys)
	}
}
