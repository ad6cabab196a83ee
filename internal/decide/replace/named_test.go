package replace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func otherName() (Plan, state.FencingDevice) {
	return Plan{Old: Old{Name: "cp-2"}, New: New{Name: "cp-9", BMC: "https://10.99.0.119/redfish/v1/Systems/1"}},
		state.FencingDevice{Username: "fencer", Password: "hush-9", Insecure: true, Fingerprint: strings.Repeat("ab", 32), FirstSight: true}
}

func TestTheSiteNamesTheNewHostWhereItNamedTheOldOne(t *testing.T) {
	have := sitetest.New(t, sitetest.TwoDual).For(state.RoleMaster)
	before, err := have.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p, dev := otherName()
	want := p.Site(have, dev)
	if p.NamedIn(have.Config) || !p.NamedIn(want.Config) {
		t.Error("it is not told which of both sites names the new host")
	}
	if diff := cmp.Diff([]string{"cp-1", "cp-9"}, HostNames(want.Config)); diff != "" {
		t.Error(diff)
	}
	cred := want.Config.ControlPlane.Fencing.Credentials
	if len(cred) != 2 || cred[0] != have.Config.ControlPlane.Fencing.Credentials[0] || cred[1].Username != "fencer" || cred[1].CertificateVerification != "Disabled" || cred[1].CertificateFingerprint != "" {
		t.Errorf("%+v", cred)
	}
	if diff := cmp.Diff([]string{"10.99.0.111", "10.99.0.119"}, want.BMCHosts()); diff != "" {
		t.Errorf("pods are kept from other BMCs: %s", diff)
	}
	kept, err := want.For(want.Role).Settled().Marshal()
	if err != nil || strings.Contains(string(kept), "hush") {
		t.Errorf("the host would keep an account: %v", err)
	}
	if again, err := have.Marshal(); err != nil || string(again) != string(before) {
		t.Error("the old site was changed")
	}
	same(t, "done again", p.Site(want, dev), want)
}

func same(t *testing.T, what string, a, b *site.Site) {
	t.Helper()
	x, errA := a.For(a.Role).Marshal()
	y, errB := b.For(b.Role).Marshal()
	if errA != nil || errB != nil || string(x) != string(y) {
		t.Errorf("%s: it differs: %v, %v, %s", what, errA, errB, cmp.Diff(string(x), string(y)))
	}
}

// The address of the BMC stands in the configuration even if the name stays: a move of the site
// writes it into the Secret again.
func TestTheSiteGetsTheBMCOfANewHostOfTheSameName(t *testing.T) {
	have := sitetest.New(t, sitetest.TwoDual)
	p, dev := otherName()
	p.New.Name = "cp-2"
	if want := p.Site(have, dev); p.NamedIn(have.Config) || !p.NamedIn(want.Config) {
		t.Error("the site has the BMC of the machine that burned")
	}
	p.New.BMC = have.Config.ControlPlane.Fencing.Credentials[1].Address
	if !p.NamedIn(have.Config) {
		t.Error("a machine with the same BMC needs another configuration")
	}
	if lone := sitetest.New(t, sitetest.OneNone); p.NamedIn(lone.Config) || len(p.Site(lone, dev).BMCHosts()) != 0 {
		t.Error("a site without accounts names the new host")
	}
}

func TestANameThatIsTakenOrNoneIsRefused(t *testing.T) {
	gone := retired.List{
		{Name: "cp-7", When: noon, By: "kim", Why: "holdfast host replace cp-7"}, {Name: "cp-6", When: noon, Again: noon.Add(time.Hour)},
	}
	for name, want := range map[string]string{
		"cp-9": "", "cp-6": "", "cp-2": "",
		"cp-7":             "the name stays retired",
		"w-1":              "w-1",
		"CP-9":             "must be in lower case",
		"cp_9":             "must be a DNS name",
		"api":              "is a name that the cluster uses itself",
		"10.98.0.13":       "must be a name, not an address",
		"cp-9.example.com": "give all hosts short names or all fully qualified ones",
		"cp-1.example.com": "names the same host as",
	} {
		said := Taken(Wish{Old: "cp-2", New: New{Name: name}}, []string{"cp-1", "cp-2", "w-1"}, false, gone)
		if want == "" != (said == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
	if said := Taken(Wish{Old: "cp-2", New: New{Name: "w-5"}}, []string{"cp-1", "cp-2"}, true, nil); !strings.Contains(said, "is the name of a Node") {
		t.Errorf("the name of a worker that is there: %q", said)
	}
	var none config.InstallConfig
	if names := HostNames(&none); len(names) != 0 {
		t.Errorf("%q", names)
	}
}

// The file of Corosync loses the number right after that, and a newcomer of another name must not
// get it.
func TestThePlanKeepsTheNumberOfTheHostThatIsRetired(t *testing.T) {
	f := ready()
	plan := start(true, false).facts().Plan
	plan.Stage = Planned
	f.Plan, f.Lock, f.Number = plan, state.Known(plan.ID), 2
	if d := Decide(f); d.Rule != "planned.retire" || d.Plan == nil || d.Plan.Old.Number != 2 {
		t.Errorf("%s: %+v", d.Rule, d.Plan)
	}
}
