package labcli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/config"
)

func TestTheConfigOfTheMovedSiteIsWrittenBeforeTheMoveAndAfterIt(t *testing.T) {
	b := growingLab(t)
	line := []string{"install-config", "--name", "edge", "--moved", "--out", "-"}
	code, before, errs := runLine(t, line...)
	c, err := config.Parse([]byte(before))
	if code != command.ExitOK || errs != "" || err != nil {
		t.Fatalf("exit %d, %v, %s: %s", code, err, errs, before)
	}
	metal := c.Platform.BareMetal
	if got := c.Networking.MachineNetwork[0].CIDR + " " + metal.APIVIPs[0] + " " + metal.IngressVIPs[0] + " " + c.RendezvousIP; got != "10.77.0.0/24 10.77.0.5 10.77.0.6 10.77.0.11" {
		t.Errorf("the moved site has %s", got)
	}
	own, err := os.ReadFile(filepath.Join(b.SiteDir(), "install-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	o := b.Options
	if o.Spec, err = o.Spec.In(true); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(o)
	if err := errors.Join(err, os.WriteFile(filepath.Join(b.Dir, "lab.json"), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, after, _ := runLine(t, line...); after != before {
		t.Errorf("after the move: %s", cmp.Diff(before, after))
	}
	if _, plain, _ := runLine(t, "install-config", "--name", "edge", "--out", "-"); plain != string(own) {
		t.Errorf("the site's own file: %s", cmp.Diff(string(own), plain))
	}
	file := filepath.Join(t.TempDir(), "two.yaml")
	code, _, errs = runLine(t, "install-config", "--name", "edge", "--control-planes", "2", "--moved", "--out", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err = config.Parse(text)
	if code != command.ExitOK || errs != file+" has the install-config of lab edge, with controlPlane.replicas 2, with the addresses of the moved site\n" ||
		err != nil || c.ControlPlaneReplicas() != 2 || c.RendezvousIP != "10.77.0.11" || c.ControlPlane.Fencing == nil {
		t.Errorf("exit %d, %v, %s: %s", code, err, errs, text)
	}
}
