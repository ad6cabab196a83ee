package grow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// three is the file of sitetest.TwoDual with three control planes, which have no accounts of BMCs.
var three = strings.Replace(sitetest.TwoDual, fencing(), "controlPlane: {replicas: 3}\n", 1)

func TestTheSiteOfThreeIsTheLivingOneWithTheFilesNumberAndNoFencing(t *testing.T) {
	have := living(t, sitetest.TwoDual+"featureSet: CustomNoUpgrade\nfeatureGates: [Other=true, DualReplicaTopology=true]\n")
	want, err := grow.Three(have, edited(t, three+"featureSet: CustomNoUpgrade\nfeatureGates: [Other=true]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(have.Identity, want.Identity); diff != "" || want.Role != have.Role || want.BMCs != nil {
		t.Errorf("another identity or role (%s), or BMCs %v: %s", want.Role, want.BMCs, diff)
	}
	got := want.Topology()
	if got.Fencing || got.ControlPlanes != 3 || got.EtcdScaling == topology.EtcdTwoNode || got.FeatureSet != config.CustomNoUpgrade || len(got.FeatureGates) != 1 {
		t.Errorf("topology %+v", got)
	}
	if have.Config.ControlPlaneReplicas() != 2 || have.Config.ControlPlane.Fencing == nil {
		t.Error("the living site was changed")
	}
	data, err := grow.Kept(want).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := site.Unmarshal(data); err != nil {
		t.Errorf("a host could not read its site.json: %v", err)
	}
}

func TestASiteOfTwoBecomesThreeByAFileThatSaysSoAndChangesNothingElse(t *testing.T) {
	for sentence, c := range map[string]struct {
		have string
		file func(*config.InstallConfig)
		path string
		why  string
	}{
		"a site of one":  {one, func(*config.InstallConfig) {}, "controlPlane.replicas", "only a site of two control planes becomes one of three"},
		"a file of two":  {sitetest.TwoDual, func(c *config.InstallConfig) { c.ControlPlane.Replicas = new(int64(2)) }, "controlPlane.replicas", "set it to 3"},
		"another domain": {sitetest.TwoDual, func(c *config.InstallConfig) { c.Metadata.Name = "store" }, "metadata.name", "leave it as it is"},
		"another gate": {sitetest.TwoDual, func(c *config.InstallConfig) {
			c.FeatureSet, c.FeatureGates = config.CustomNoUpgrade, []string{"Other=true"}
		}, "featureGates[Other]", "leave the gates as they are"},
	} {
		file := edited(t, three)
		c.file(file)
		got, err := grow.Three(living(t, c.have), file)
		var refused *config.RefusedError
		if got != nil || !errors.As(err, &refused) || len(refused.Differences) != 1 || refused.Differences[0].Path != c.path || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

// Each host makes the site by itself, and both must agree with the file that a person gave.
func TestAHostMakesTheSiteOfThreeWithoutTheFile(t *testing.T) {
	more := "featureSet: CustomNoUpgrade\nfeatureGates: [Other=true, DualReplicaTopology=true]\n"
	have := living(t, sitetest.TwoDual+more)
	byFile, err := grow.Three(have, edited(t, three+"featureSet: CustomNoUpgrade\nfeatureGates: [Other=true]\n"))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := grow.ThreeOf(have)
	if err != nil {
		t.Fatal(err)
	}
	want, errWant := grow.Kept(byFile).Marshal()
	got, errGot := grow.Kept(alone).Marshal()
	if diff := cmp.Diff(string(want), string(got)); diff != "" || errWant != nil || errGot != nil {
		t.Errorf("%s, %v, %v", diff, errWant, errGot)
	}
	if _, err := grow.ThreeOf(alone); err == nil {
		t.Error("a site of three became one of three")
	}
}

// Three control planes do not fence each other: nobody writes such a file by mistake.
func TestAFileOfThreeWithAccountsOfBMCsIsNotRead(t *testing.T) {
	text := strings.Replace(fencing(), "replicas: 2", "replicas: 3", 1)
	if text == fencing() {
		t.Fatal("the fixture has no replicas: 2")
	}
	if _, err := config.Parse([]byte(strings.Replace(sitetest.TwoDual, fencing(), text, 1))); err == nil || !strings.Contains(err.Error(), "controlPlane.fencing") {
		t.Errorf("%v", err)
	}
}
