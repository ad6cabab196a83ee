package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
)

func released(t *testing.T, s *site.Site) Release {
	t.Helper()
	out, err := ReleaseOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatOfASiteBelongsToTheReleaseIsApproved: each object of each site has its line.
// Whoever adds one says whom it belongs to.
func TestWhatOfASiteBelongsToTheReleaseIsApproved(t *testing.T) {
	lines := map[string]string{}
	for name, c := range sites(t) {
		whose := map[state.ObjectRef]string{}
		r := released(t, &site.Site{Config: c})
		for owner, list := range map[string][]Document{"release": slices.Concat(r.Kinds, r.Objects), "operator": r.Operator} {
			for _, d := range list {
				whose[d.ObjectRef] = owner
				if d.WhileThere {
					whose[d.ObjectRef] = "release, while it is there"
				}
				if d.UnlessChanged {
					whose[d.ObjectRef] = "release, unless changed"
				}
			}
		}
		for _, ref := range r.Every {
			of := whose[ref]
			if of == "" {
				of = "site"
			}
			if before := lines[ref.String()]; before != "" && before != of {
				t.Errorf("%s: %s belongs to %s, elsewhere to %s", name, ref, of, before)
			}
			lines[ref.String()] = of
		}
		if got, all := len(r.Every), installed(t, c); got != all {
			t.Errorf("%s: %d objects are classified, and %d are installed", name, got, all)
		}
	}
	var text strings.Builder
	for _, ref := range slices.Sorted(maps.Keys(lines)) {
		_, _ = fmt.Fprintf(&text, "%-28s %s\n", lines[ref], ref)
	}
	path := filepath.Join("testdata", "belongs.txt")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if diff := cmp.Diff(string(want), text.String()); err != nil || diff != "" {
		t.Errorf("whom an object belongs to (-approved +now), %v:\n%s", err, diff)
	}
}

// TestAnObjectOfWhichNobodySaysWhomItBelongsToIsRefused.
func TestAnObjectOfWhichNobodySaysWhomItBelongsToIsRefused(t *testing.T) {
	o := namespaces()[0]
	if _, err := o.files(); err == nil || !strings.Contains(err.Error(), "release or to the site") {
		t.Errorf("%v", err)
	}
	for name, c := range sites(t) {
		for _, o := range objects(c, topology.Of(c)) {
			if !slices.Contains([]owner{ofRelease, whileThere, ofOperator, ofSite}, o.of) {
				t.Errorf("%s: %s belongs to %q", name, o.file, o.of)
			}
		}
	}
}

// TestAControlPlaneRendersTheSameReleaseWithoutItsSecrets: a host keeps the configuration
// without the accounts of BMCs.
func TestAControlPlaneRendersTheSameReleaseWithoutItsSecrets(t *testing.T) {
	for name, c := range sites(t) {
		whole := &site.Site{Config: c}
		for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster} {
			text, err := whole.For(role).Settled().Marshal()
			if err != nil {
				t.Fatal(err)
			}
			kept, err := site.Unmarshal(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(released(t, whole), released(t, kept)); diff != "" {
				t.Errorf("%s, %s:\n%s", name, role, diff)
			}
		}
	}
}

// TestWhatAnUpgradeBringsHasNoSecretAndNoObjectOfPeople, whatever a site has.
func TestWhatAnUpgradeBringsHasNoSecretAndNoObjectOfPeople(t *testing.T) {
	for name, c := range sites(t) {
		r := released(t, &site.Site{Config: c})
		for _, d := range slices.Concat(r.Kinds, r.Objects, r.Operator) {
			if d.Kind == "Secret" || d.Group() == "config.openshift.io" || d.Group() == "operator.openshift.io" || holdsSecret(d.Data) {
				t.Errorf("%s: %s is brought", name, d)
			}
		}
		if len(r.Operator) != 1 || r.Operator[0].Kind != "Deployment" || len(r.Kinds) < 20 {
			t.Errorf("%s: %d kinds, the operator is %v", name, len(r.Kinds), r.Operator)
		}
	}
}

// installed counts the objects that an installation applies.
func installed(t *testing.T, c *config.InstallConfig) int {
	t.Helper()
	network, err := Network(&site.Site{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	out := 0
	for _, f := range append(render(t, c), network...) {
		if filepath.Dir(f.Path) != Statuses {
			out += bytes.Count(append([]byte("\n"), f.Data...), []byte("\nkind: "))
		}
	}
	return out
}
