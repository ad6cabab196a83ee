package grow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var stay = [2]string{"cp-1", "cp-2"}

func TestTheSiteOfTwoThatThreeBecomeIsTheLivingOneWithTheFilesAccounts(t *testing.T) {
	have := living(t, three)
	want, err := grow.Narrowed(have, edited(t, sitetest.TwoDual), stay)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(have.Identity, want.Identity); diff != "" || want.Role != have.Role {
		t.Errorf("another identity or role (%s): %s", want.Role, diff)
	}
	if got := want.Topology(); !got.Fencing || got.ControlPlanes != 2 || got.EtcdScaling != topology.EtcdTwoNode {
		t.Errorf("topology %+v", got)
	}
	back, err := grow.ThreeOf(want)
	if err != nil || back.Topology().ControlPlanes != 3 || back.Config.ControlPlane.Fencing != nil {
		t.Errorf("the way back: %v", err)
	}
	if have.Config.ControlPlaneReplicas() != 3 {
		t.Error("the living site was changed")
	}
}

func TestASiteOfThreeBecomesTwoByAFileThatNamesBothBMCsAndChangesNothingElse(t *testing.T) {
	for sentence, c := range map[string]struct {
		have string
		stay [2]string
		file func(*config.InstallConfig)
		path string
		why  string
	}{
		"a site of one":        {one, stay, func(*config.InstallConfig) {}, "controlPlane.replicas", "only a site of three control planes becomes one of two"},
		"a host that goes":     {three, [2]string{"cp-1", "cp-3"}, func(*config.InstallConfig) {}, "controlPlane.fencing.credentials", "the BMC of cp-3, which stays, is missing (it names cp-1 and cp-2)"},
		"a password is hidden": {three, stay, func(c *config.InstallConfig) { c.ControlPlane.Fencing.Credentials[1].Password = "" }, "controlPlane.fencing.credentials[1].password", "write the password"},
		"another name":         {three, stay, func(c *config.InstallConfig) { c.Metadata.Name = "store" }, "metadata.name", "leave it as it is"},
	} {
		file := edited(t, sitetest.TwoDual)
		c.file(file)
		got, err := grow.Narrowed(living(t, c.have), file, c.stay)
		var refused *config.RefusedError
		if got != nil || !errors.As(err, &refused) || len(refused.Differences) != 1 || refused.Differences[0].Path != c.path || !strings.Contains(err.Error(), c.why) ||
			!strings.Contains(err.Error(), "this site of three control planes cannot become one of two") {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}
