package installation

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostGoesOnOnlyWithItsOwnSiteAndRole(t *testing.T) {
	of := func(cluster, life string, role state.Role) *site.Site {
		return &site.Site{Role: role, Config: &config.InstallConfig{}, Identity: site.Identity{ClusterID: cluster}, Life: state.Life{ID: life}}
	}
	const first, master, worker = state.RoleBootstrap, state.RoleMaster, state.RoleWorker
	for name, c := range map[string]struct {
		have, want *site.Site
		installed  bool
		says       string
	}{
		"its own configuration, made again":         {of("a", "", worker), of("a", "", worker), false, ""},
		"the same on an installed host":             {of("a", "1", master), of("a", "1", master), true, ""},
		"another install directory":                 {of("a", "", first), of("b", "", first), false, "of another install directory"},
		"another site, on an installed host":        {of("a", "", master), of("b", "", master), true, "(id a), and the configuration is of"},
		"the restored site":                         {of("a", "", first), of("a", "1", first), false, "a restore has begun another life"},
		"another restore":                           {of("a", "1", worker), of("a", "2", worker), true, "a restore has begun another life"},
		"a worker's, on a control plane":            {of("a", "", master), of("a", "", worker), true, "its role is master, and the configuration is for role worker"},
		"a control plane's, on a worker":            {of("a", "", worker), of("a", "", master), true, "its role is worker, and"},
		"one that joins, on the first host":         {of("a", "", first), of("a", "", master), false, "its role is bootstrap, and"},
		"one that joins, on an installed first one": {of("a", "", first), of("a", "", master), true, ""},
	} {
		err := Mixed(c.have, c.want, c.installed)
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "holdfast-agent wipe")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
