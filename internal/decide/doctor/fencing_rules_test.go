package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// fencers are two hosts that fence each other's.
func fencers(change func(first, second *BMC)) *sheet {
	a, b := BMC{Target: "cp-2", Address: "10.97.0.12", Verified: true, Pinned: true}, BMC{Target: "cp-1", Address: "10.97.0.11", Verified: true, Pinned: true}
	change(&a, &b)
	return &sheet{Facts: Facts{At: now, Topology: Topology{ControlPlanes: 2, Fencing: true}, Hosts: []Host{
		{Name: "cp-1", BMCs: state.Known([]BMC{a})}, {Name: "cp-2", BMCs: state.Known([]BMC{b})},
	}}}
}

// allFound lists what a check found, one line for each finding.
func allFound(s *sheet) string {
	var out []string
	for _, f := range s.found {
		out = append(out, fmt.Sprintf("%s %s: %s", f.Severity, f.Subject, f.Problem))
	}
	for _, u := range s.unseen {
		out = append(out, "unseen "+u)
	}
	return strings.Join(out, "\n")
}

// TestTheHostThatWaitsWaitsLongerThanAFenceTakes, whichever of the two it is.
func TestTheHostThatWaitsWaitsLongerThanAFenceTakes(t *testing.T) {
	const least = fencing.MinimumDelay
	for what, c := range map[string]struct {
		apart, slowest time.Duration
		want           string // what is found beside that it waits
	}{
		"the shortest that is enough":       {least, least / 2, ""},
		"a moment less":                     {least - time.Second, 0, "warning WAITS: it waits only %s, less than " + least.String()},
		"less than twice what a fence took": {least, least/2 + time.Second, "warning WAITS: it waits %s, less than twice the " + rounded(least/2+time.Second).String() + " that a fence by QUICK has taken"},
		"as long as a fence took":           {least, least, "critical WAITS: it waits %s, but a fence by QUICK has taken " + rounded(least).String() + ": both would be switched off"},
		"a moment longer than a fence took": {least, least - time.Second, "warning WAITS: it waits %s, less than twice the " + rounded(least-time.Second).String() + " that a fence by QUICK has taken"},
	} {
		for _, second := range []bool{true, false} {
			const base = 5 * time.Second
			s := fencers(func(a, b *BMC) {
				a.Delay, b.Delay = base, base
				if second {
					b.Delay, a.Slowest = base+c.apart, c.slowest
				} else {
					a.Delay, b.Slowest = base+c.apart, c.slowest
				}
			})
			judgeDelay(s)
			waits, quick := "cp-1", "cp-2"
			if second {
				waits, quick = quick, waits
			}
			want := fmt.Sprintf("ok : %s waits %s longer than %s", waits, c.apart, quick)
			if c.want != "" {
				want += "\n" + fmt.Sprintf(strings.NewReplacer("WAITS", waits, "QUICK", quick).Replace(c.want), c.apart)
			}
			if got := allFound(s); got != want {
				t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
			}
		}
	}
	s := fencers(func(a, b *BMC) { a.Delay, b.Delay = time.Minute, time.Minute })
	if judgeDelay(s); allFound(s) != "critical : cp-1 and cp-2 both wait 1m0s: if they lose contact with each other, both are switched off" {
		t.Error(allFound(s))
	}
	s.Hosts, s.found = s.Hosts[:1], nil
	if judgeDelay(s); allFound(s) != "" {
		t.Errorf("another check says who has no device: %s", allFound(s))
	}
}

// TestWhatIsSaidOfTheCertificateOfABMC: a pinned one counts whatever its dates, but the
// BMC may soon make a new one.
func TestWhatIsSaidOfTheCertificateOfABMC(t *testing.T) {
	shows := func(fingerprint string, left time.Duration) state.Fact[Shown] {
		return state.Known(Shown{Fingerprint: fingerprint, Ends: now.Add(left)})
	}
	const day, pinned = 24 * time.Hour, "the certificate of the BMC of cp-2 is pinned"
	for what, c := range map[string]struct {
		change func(*BMC)
		want   string // its beginning
	}{
		"pinned":                                 {func(b *BMC) { b.Fingerprint, b.Shows = "aa", shows("aa", 900*day) }, "ok cp-1: " + pinned},
		"pinned as first shown":                  {func(b *BMC) { b.FirstSight, b.Shows = true, shows("aa", 900*day) }, "ok cp-1: " + pinned + ", as first shown"},
		"pinned, and it shows another one":       {func(b *BMC) { b.Fingerprint, b.Shows = "aa", shows("bb", 900*day) }, "critical cp-1: the BMC of cp-2 shows another certificate (SHA-256 bb) than the pinned one (SHA-256 aa)"},
		"pinned, and it shows none":              {func(b *BMC) { b.Fingerprint, b.Shows = "aa", shows("", 900*day) }, "ok cp-1: " + pinned},
		"pinned by an older release":             {func(b *BMC) { b.Shows = shows("bb", 900*day) }, "ok cp-1: " + pinned},
		"pinned, and what it shows is not known": {func(b *BMC) { b.Fingerprint, b.Shows.Value.Fingerprint = "aa", "bb" }, "ok cp-1: " + pinned},
		"pinned, and it ends soon":               {func(b *BMC) { b.Shows = shows("", endsWarning-1) }, "note cp-1: " + pinned + ", and expires in "},
		"pinned, and it ends later":              {func(b *BMC) { b.Shows = shows("", endsWarning) }, "ok cp-1: " + pinned},
		"pinned, and it has ended":               {func(b *BMC) { b.Shows = shows("", 0) }, "ok cp-1: " + pinned},
		"not pinned yet":                         {func(b *BMC) { b.Verified = false }, "critical cp-1: the certificate of the BMC of cp-2 is not pinned yet"},
		"checked, and nobody knows it":           {func(b *BMC) { b.Pinned = false }, "unseen certificate of the BMC of cp-2: it did not answer cp-1"},
		"checked, and it has ended":              {func(b *BMC) { b.Pinned, b.Shows = false, shows("", 0) }, "critical cp-1: the certificate of the BMC of cp-2 expired 0 days ago: the BMC is refused"},
		"checked, and it ends soon":              {func(b *BMC) { b.Pinned, b.Shows = false, shows("", endsWarning-1) }, "warning cp-1: the certificate of the BMC of cp-2 expires in "},
		"checked, and it ends later":             {func(b *BMC) { b.Pinned, b.Shows = false, shows("", endsWarning) }, ""},
	} {
		s := fencers(func(a, _ *BMC) { c.change(a) })
		s.Hosts = s.Hosts[:1]
		judgeBMCCertificate(s)
		if got := allFound(s); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// docs/facts/life.md#certificates, L-C23 and L-C25.
func TestWhatNobodyRenewsOnAHostAndAnAuthorityTooManyAreSaid(t *testing.T) {
	const key, rest = "/etc/kubernetes/pki/etcd/ca.key", "ok cp-1: the next of the other certificates expires in "
	without := func(left time.Duration) Certificate {
		return Certificate{Path: "a.crt", Ends: now.Add(left), Lacks: key}
	}
	for what, c := range map[string]struct {
		list []Certificate
		want string
	}{
		"for long": {
			[]Certificate{without(400 * 24 * time.Hour), without(lacksWarning), {Path: "b.crt", Ends: now.Add(200 * 24 * time.Hour)}},
			"note cp-1: " + key + " is not on this host, so 2 of its certificates can be renewed only where the key is; the first expires in 90 days\n" + rest + "90 days",
		},
		"not for long": {
			[]Certificate{without(lacksWarning - time.Hour)},
			"warning cp-1: " + key + " is not on this host, so 1 of its certificates can be renewed only where the key is; the first expires in 89 days\n" + rest + "89 days",
		},
		"one authority too many": {
			[]Certificate{{Path: "/etc/kubernetes/pki/ca.crt", Ends: now.Add(4000 * 24 * time.Hour), Authority: true, Others: 1}},
			"warning cp-1: /etc/kubernetes/pki/ca.crt contains 2 certificates, and kube-controller-manager signs nothing and does not start again with more than one: keep the one that belongs to /etc/kubernetes/pki/ca.key\n" + rest + "4000 days",
		},
		"two while one is replaced": {
			[]Certificate{{Path: "/etc/kubernetes/pki/ca.crt", Ends: now.Add(4000 * 24 * time.Hour), Authority: true, Others: 1}, {Path: "/etc/kubernetes/pki/ca-signing.pem", Ends: now.Add(5000 * 24 * time.Hour), Authority: true}}, rest + "4000 days",
		},
		"another file may have several": {
			[]Certificate{{Path: "/etc/kubernetes/pki/etcd/ca.crt", Ends: now.Add(4000 * 24 * time.Hour), Authority: true, Others: 1}}, rest + "4000 days",
		},
	} {
		s := &sheet{Facts: Facts{At: now, Hosts: []Host{{Name: "cp-1", Certificates: state.Known(c.list)}}}}
		judgeCertificates(s)
		if got := allFound(s); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, c.want)
		}
	}
}

func TestWhenACertificateOfAHostEndsIsSaidInTime(t *testing.T) {
	cert := func(left time.Duration, authority bool) Certificate {
		return Certificate{Path: "a.crt", Ends: now.Add(left), Authority: authority}
	}
	s := &sheet{Facts: Facts{At: now}}
	for _, c := range []struct {
		c    Certificate
		want finding.Severity
	}{
		{cert(endsCritical-1, false), finding.Critical},
		{cert(endsCritical, false), finding.Warning},
		{cert(endsWarning-1, false), finding.Warning},
		{cert(endsWarning, false), finding.OK},
		{cert(endsWarning, true), finding.Note},
		{cert(authorityEnds-1, true), finding.Note},
		{cert(authorityEnds, true), finding.OK},
		{cert(authorityEnds-1, false), finding.OK},
	} {
		if got := s.ending(c.c); got != c.want {
			t.Errorf("%s, an authority %t: %s", c.c.Ends.Sub(now), c.c.Authority, got)
		}
	}
	const hour = time.Hour
	for left, want := range map[time.Duration]string{
		-50 * hour: "expired 2 days ago", 0: "expired 0 days ago", 1: "expires in 0 hours", 48*hour - 1: "expires in 47 hours", 48 * hour: "expires in 2 days", 99 * 24 * hour: "expires in 99 days",
	} {
		if got := ends(left); got != want {
			t.Errorf("%s: %q", left, got)
		}
	}
	s.Hosts = []Host{{Name: "cp-1", Certificates: state.Known([]Certificate{cert(900*24*hour, false), cert(400*24*hour, false), cert(500*24*hour, false)})}}
	if judgeCertificates(s); allFound(s) != "ok cp-1: the next of the other certificates expires in 400 days" {
		t.Error(allFound(s))
	}
	s.found, s.Hosts[0].Certificates.Value = nil, []Certificate{cert(endsWarning-hour, false)}
	if judgeCertificates(s); len(s.found) != 1 || s.found[0].Severity != finding.Warning {
		t.Errorf("of no other one nothing is said: %s", allFound(s))
	}
}

// TestWhatIsSaidOfTheFirewallsOfAHost: each firewall of the site by itself, and only
// where Holdfast's own rules are there is all well.
func TestWhatIsSaidOfTheFirewallsOfAHost(t *testing.T) {
	const allows = "ok cp-1: ufw allows everything that is needed"
	for what, c := range map[string]struct {
		f    Firewall
		want []string
	}{
		"only ours":                      {Firewall{Ours: true}, []string{"ok cp-1: no other firewall refuses packets there"}},
		"ours is missing":                {Firewall{}, []string{"warning cp-1: it lacks Holdfast's rules"}},
		"ours is switched off":           {Firewall{Off: true}, []string{"note cp-1: Holdfast's rules are switched off"}},
		"another one that allows it all": {Firewall{Ours: true, Site: []state.SiteFirewall{{Name: "ufw"}}}, []string{allows}},
		"hosts are refused":              {Firewall{Ours: true, Site: []state.SiteFirewall{{Name: "ufw", Cluster: []string{"a", "b"}}}}, []string{"critical cp-1: ufw refuses ports that hosts need from each other: a, b"}},
		"pods are refused":               {Firewall{Ours: true, Site: []state.SiteFirewall{{Name: "ufw", Pods: []string{"a"}}}}, []string{"critical cp-1: ufw refuses packets of pods (a)"}},
		"clients are refused":            {Firewall{Ours: true, Site: []state.SiteFirewall{{Name: "ufw", Applications: []string{"80/tcp"}}}}, []string{"warning cp-1: ufw refuses ports that clients of applications need"}},
		"nobody can judge it":            {Firewall{Ours: true, Site: []state.SiteFirewall{{Name: "ufw", Unjudged: true}}}, []string{"unseen what ufw on cp-1 refuses"}},
		"all of it": {
			Firewall{Site: []state.SiteFirewall{{Name: "x", Cluster: []string{"a"}, Pods: []string{"b"}, Applications: []string{"c"}}, {Name: "ufw"}}},
			[]string{"warning cp-1: it lacks", "critical cp-1: x refuses ports that hosts", "critical cp-1: x refuses packets", "warning cp-1: x refuses ports that clients", allows},
		},
	} {
		s := &sheet{Facts: Facts{Hosts: []Host{{Name: "cp-1", Firewall: state.Known(c.f)}}}}
		judgeFirewall(s)
		got := strings.Split(allFound(s), "\n")
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", what, got)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: %q, want %q", what, got[i], want)
			}
		}
	}
}

func TestOfManyPoliciesFiveAreNamed(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "warning : 1 NetworkPolicies are not enforced: p1", 5: "warning : 5 NetworkPolicies are not enforced: p1, p2, p3, p4, p5", 7: "warning : 7 NetworkPolicies are not enforced: p1, p2, p3, p4, p5 and 2 more"} {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("p%d", i+1))
		}
		s := &sheet{Facts: Facts{Cluster: Cluster{Unenforced: state.Known(list)}}}
		if judgePolicies(s); allFound(s) != want {
			t.Errorf("%d: %q", n, allFound(s))
		}
	}
}

// TestWhereNameServersOfTheClusterAreMissing: pods ask that of their own host.
func TestWhereNameServersOfTheClusterAreMissing(t *testing.T) {
	server := func(node string, unready bool) Pod { return Pod{Node: node, Unready: unready} }
	nodes := []Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for what, c := range map[string]struct {
		servers []Pod
		want    string
	}{
		"one on each":             {[]Pod{server("a", false), server("b", false), server("c", false)}, ""},
		"none on one":             {[]Pod{server("a", false), server("b", false)}, "warning : no name server of the cluster runs on c: the pods there depend on other hosts"},
		"all on one":              {[]Pod{server("a", false), server("a", false)}, "warning a: all name servers of the cluster run on it: if it is lost, no pod can resolve names"},
		"one is not ready":        {[]Pod{server("a", false), server("b", true), server("c", false)}, "warning : the name server on b is not ready: the pods there depend on other hosts"},
		"one of two there is":     {[]Pod{server("a", false), server("b", true), server("b", false), server("c", false)}, ""},
		"none, and one not ready": {[]Pod{server("a", false), server("b", true)}, "warning : no name server of the cluster runs on c: the pods there depend on other hosts\nwarning : the name server on b is not ready: the pods there depend on other hosts"},
	} {
		s := &sheet{}
		if s.spreadOfDNS(c.servers, nodes); allFound(s) != c.want {
			t.Errorf("%s: %q", what, allFound(s))
		}
	}
}
