package grow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// one is the site of one control plane that becomes sitetest.TwoDual.
var one = strings.Replace(sitetest.TwoDual, fencing(), "controlPlane: {replicas: 1}\n", 1)

func fencing() string {
	from := strings.Index(sitetest.TwoDual, "controlPlane:")
	to := strings.Index(sitetest.TwoDual, "networking:")
	return sitetest.TwoDual[from:to]
}

// living is the copy of a site that its lone host has after its installation.
func living(t *testing.T, text string) *site.Site {
	t.Helper()
	data, err := sitetest.New(t, text).For(state.RoleBootstrap).Settled().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func edited(t *testing.T, text string) *config.InstallConfig {
	t.Helper()
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refusals returns what Site refuses, and fails if it does not.
func refusals(t *testing.T, have *site.Site, file *config.InstallConfig, host string) (told []string, words string) {
	t.Helper()
	got, err := grow.Site(have, file, host)
	var refused *config.RefusedError
	if !errors.As(err, &refused) || got != nil {
		t.Fatalf("not refused: %v", err)
	}
	for _, d := range refused.Differences {
		told = append(told, d.Path)
	}
	return told, err.Error()
}

func TestTheSiteOfTwoIsTheLivingOneWithTheFilesNumberAndAccounts(t *testing.T) {
	have, file := living(t, one), edited(t, sitetest.TwoDual)
	want, err := grow.Site(have, file, "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(have.Identity, want.Identity); diff != "" || want.Role != state.RoleBootstrap {
		t.Errorf("another identity or role (%s): %s", want.Role, diff)
	}
	if got := want.Topology(); !got.Fencing || got.EtcdScaling != topology.EtcdTwoNode {
		t.Errorf("topology %+v", got)
	}
	if diff, err := config.Compare(want.Config, file); err != nil || len(diff) > 0 {
		t.Errorf("the configuration differs from the file: %+v, %v", diff, err)
	}
	if got := want.Config.ControlPlane.Fencing.Credentials[1].Password.Reveal(); got != "hush-2" {
		t.Errorf("the Secrets in the cluster would get the password %q", got)
	}
	if have.Config.ControlPlaneReplicas() != 1 || have.Config.ControlPlane.Fencing != nil {
		t.Error("the living site was changed")
	}
}

func TestTheHostKeepsNoAccountOfABMC(t *testing.T) {
	want, err := grow.Site(living(t, one), edited(t, sitetest.TwoDual), "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	kept := grow.Kept(want)
	data, err := kept.Marshal()
	if err != nil || strings.Contains(string(data), "hush-") {
		t.Errorf("site.json has a password: %v", err)
	}
	if kept.Role != state.RoleBootstrap || !slices.Equal(kept.BMCs, []string{"10.99.0.111", "10.99.0.112"}) {
		t.Errorf("role %s, BMCs %v", kept.Role, kept.BMCs)
	}
	fresh, err := sitetest.New(t, sitetest.TwoDual).For(state.RoleBootstrap).Settled().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(fresh), string(data)); diff != "" {
		t.Errorf("it differs from what a host of two keeps that was installed so:\n%s", diff)
	}
}

// TestASiteThatIsTwoAlreadyIsNotGrownAgain: after a cut behind the last write the command
// must look at site.json.
func TestASiteThatIsTwoAlreadyIsNotGrownAgain(t *testing.T) {
	told, words := refusals(t, living(t, sitetest.TwoDual), edited(t, sitetest.TwoDual), "cp-1")
	if !slices.Equal(told, []string{"controlPlane.replicas"}) || !strings.Contains(words, "only a site of one control plane") {
		t.Errorf("%q: %s", told, words)
	}
}

func TestEveryOtherDifferenceIsRefusedAtOnce(t *testing.T) {
	file := edited(t, sitetest.TwoDual+"proxy: {httpProxy: \"http://clerk:hush-proxy@10.98.0.9:3128\"}\n"+
		"pullSecret: '{\"auths\":{\"mirror.example.test\":{\"auth\":\"aHVzaDpodXNo\"}}}'\n")
	file.Metadata.Name, file.SSHKey = "store", "ssh-ed25519 AAAA of-the-night-shift"
	file.Networking.MachineNetwork[0].CIDR = "10.97.0.0/16"
	file.Platform.BareMetal.APIVIPs[0] = "10.98.0.55"
	file.Compute = []config.MachinePool{{Name: "worker", Replicas: new(int64(3))}}
	told, words := refusals(t, living(t, one), file, "cp-9")
	for _, path := range []string{
		"compute[0].name", "compute[0].replicas", "controlPlane.fencing.credentials", "metadata.name", "networking.machineNetwork[0].cidr",
		"platform.baremetal.apiVIPs[0]", "proxy.httpProxy", "pullSecret", "sshKey",
	} {
		if !slices.Contains(told, path) {
			t.Errorf("%s is not refused: %q", path, told)
		}
	}
	for _, part := range []string{
		"metadata.name: the site has shop, the file store: leave it as it is: it was decided at the installation",
		"sshKey: only the file has it (ssh-ed25519 AAAA of-the-night-shift): leave it as it was installed; in a living site: holdfast config apply",
		"the BMC of this host, cp-9, is missing (it names cp-1 and cp-2)",
	} {
		if !strings.Contains(words, part) {
			t.Errorf("no word of %q in\n%s", part, words)
		}
	}
	if strings.Contains(words, "hush") || strings.Contains(words, "aHVz") {
		t.Errorf("a secret is told:\n%s", words)
	}
}

func TestWhatTwoControlPlanesNeedIsSaid(t *testing.T) {
	preview := strings.Replace(one, "baseDomain:", "featureSet: TechPreviewNoUpgrade\nbaseDomain:", 1)
	for sentence, c := range map[string]struct {
		have string
		file func(*config.InstallConfig)
		path string
		why  string
	}{
		"one account is too few": {one, func(c *config.InstallConfig) {
			c.ControlPlane.Fencing.Credentials = c.ControlPlane.Fencing.Credentials[:1]
		}, "controlPlane.fencing.credentials", "exactly the two control planes"},
		"one host twice is one host": {one, func(c *config.InstallConfig) {
			c.ControlPlane.Fencing.Credentials[1].HostName = "cp-1"
		}, "controlPlane.fencing.credentials", "each once"},
		"no account at all": {one, func(c *config.InstallConfig) { c.ControlPlane.Fencing = nil }, "controlPlane.fencing.credentials", "it names no host"},
		"a file that a cluster has shown": {one, func(c *config.InstallConfig) {
			c.ControlPlane.Fencing.Credentials[1].Password = "<redacted>"
		}, "controlPlane.fencing.credentials[1].password", "write the password"},
		"three are another way":              {one, func(c *config.InstallConfig) { c.ControlPlane.Replicas = new(int64(3)) }, "controlPlane.replicas", "set it to 2"},
		"a site that was three":              {sitetest.ThreeV6, func(*config.InstallConfig) {}, "controlPlane.replicas", "only a site of one"},
		"a site without virtual IPs":         {sitetest.OneNone, func(*config.InstallConfig) {}, "platform", "no virtual IPs"},
		"a feature set that has no way back": {preview, func(*config.InstallConfig) {}, "featureSet", "cannot leave the feature set"},
		"another gate": {one, func(c *config.InstallConfig) {
			c.FeatureSet, c.FeatureGates = config.CustomNoUpgrade, []string{"Other=true"}
		}, "featureGates[Other]", "leave the gates as they are"},
	} {
		file := edited(t, sitetest.TwoDual)
		c.file(file)
		told, words := refusals(t, living(t, c.have), file, "cp-1")
		if !slices.Contains(told, c.path) || !strings.Contains(words, c.why) {
			t.Errorf("%s: %q\n%s", sentence, told, words)
		}
	}
}

func TestTheGateOfTwoMayStandInTheFileOrNot(t *testing.T) {
	for _, c := range []struct{ have, file string }{
		{"", ""},
		{"", "featureSet: CustomNoUpgrade\n"},
		{"", "featureSet: CustomNoUpgrade\nfeatureGates: [DualReplicaTopology=true]\n"},
		{"featureSet: CustomNoUpgrade\nfeatureGates: [DualReplicaTopology=false, Other=true]\n", "featureSet: CustomNoUpgrade\nfeatureGates: [Other=true]\n"},
	} {
		want, err := grow.Site(living(t, one+c.have), edited(t, sitetest.TwoDual+c.file), "cp-2")
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		if diff := cmp.Diff(sitetest.New(t, sitetest.TwoDual+c.file).Topology(), want.Topology()); diff != "" {
			t.Errorf("%q: %s", c.file, diff)
		}
	}
	// Two control planes have this set without a word, and a site that was of two has kept it.
	want, err := grow.Site(living(t, one+"featureSet: CustomNoUpgrade\n"), edited(t, sitetest.TwoDual), "cp-1")
	if err != nil || want.Topology().FeatureSet != config.CustomNoUpgrade {
		t.Errorf("%v", err)
	}
}

// alone is the file of sitetest.TwoDual with one control plane.
func alone(t *testing.T, more string) *config.InstallConfig { t.Helper(); return edited(t, one+more) }

func TestTheSiteOfOneIsTheLivingOneWithTheFilesNumber(t *testing.T) {
	have := living(t, sitetest.TwoDual+"featureSet: CustomNoUpgrade\nfeatureGates: [Other=true, DualReplicaTopology=true]\n")
	want, err := grow.Lone(have, alone(t, "featureSet: CustomNoUpgrade\nfeatureGates: [Other=true]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(have.Identity, want.Identity); diff != "" || want.Role != have.Role || want.BMCs != nil {
		t.Errorf("another identity or role (%s), or BMCs %v: %s", want.Role, want.BMCs, diff)
	}
	got := want.Topology()
	if got.Fencing || got.ControlPlanes != 1 || got.FeatureSet != config.CustomNoUpgrade || len(got.FeatureGates) != 1 {
		t.Errorf("topology %+v", got)
	}
	if have.Config.ControlPlaneReplicas() != 2 || len(have.Config.FeatureGates) != 2 {
		t.Error("the living site was changed")
	}
	data, err := grow.Kept(want).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := site.Unmarshal(data); err != nil {
		t.Errorf("a host could not read its site.json: %v", err)
	}
	// and it can become one of two again
	if again, err := grow.Site(want, edited(t, sitetest.TwoDual+"featureSet: CustomNoUpgrade\nfeatureGates: [Other=true]\n"), "cp-1"); err != nil || !again.Topology().Fencing {
		t.Errorf("the way back: %v", err)
	}
}

func TestASiteOfTwoBecomesOneByAFileThatSaysSoAndChangesNothingElse(t *testing.T) {
	for sentence, c := range map[string]struct {
		have string
		file func(*config.InstallConfig)
		path string
		why  string
	}{
		"a site of one":  {one, func(*config.InstallConfig) {}, "controlPlane.replicas", "only a site of two control planes becomes one of one"},
		"a file of two":  {sitetest.TwoDual, func(c *config.InstallConfig) { c.ControlPlane.Replicas = new(int64(2)) }, "controlPlane.replicas", "set it to 1"},
		"another domain": {sitetest.TwoDual, func(c *config.InstallConfig) { c.Metadata.Name = "store" }, "metadata.name", "leave it as it is"},
		"another gate": {sitetest.TwoDual, func(c *config.InstallConfig) {
			c.FeatureSet, c.FeatureGates = config.CustomNoUpgrade, []string{"Other=true"}
		}, "featureGates[Other]", "leave the gates as they are"},
	} {
		file := alone(t, "")
		c.file(file)
		got, err := grow.Lone(living(t, c.have), file)
		var refused *config.RefusedError
		if got != nil || !errors.As(err, &refused) || len(refused.Differences) != 1 || refused.Differences[0].Path != c.path || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

func TestTheHostsOfThePlatformMayGo(t *testing.T) {
	have := living(t, one+"    hosts:\n    - {name: cp-1, bootMACAddress: \"52:54:00:00:00:01\", bmc: {address: \"https://10.99.0.111/redfish/v1/Systems/1\", username: admin, password: hush-9}}\n")
	want, err := grow.Site(have, edited(t, sitetest.TwoDual), "cp-1")
	if err != nil || want.Config.Platform.BareMetal.Hosts != nil {
		t.Errorf("%v", err)
	}
	if len(have.Config.Platform.BareMetal.Hosts) != 1 {
		t.Error("the living site was changed")
	}
}
