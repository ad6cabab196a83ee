package rotation

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// says returns a host that has files in use, written as in at, in a rotation of a.
func says(host string, a Authority, p Phase, turn, has string) Said {
	trusts, shows, _ := strings.Cut(has, "/")
	r := Report{Of: "this", New: newKey, Phase: p, Turn: turn, Trusts: list(trusts), Signs: list(shows)[0]}
	s := Said{Name: host, Control: strings.HasPrefix(host, "cp-"), Ready: true}
	if s.Control && p != Done {
		r.Began, r.Late = began, began.Add(unfinished)
	}
	s.Reports.Authorities = map[Authority]Report{a: r} //nolint:exhaustive // one is enough
	return s
}

// change changes what a host says.
func (s Said) change(f func(*Said, *Report)) Said {
	for a, r := range s.Reports.Authorities {
		if f(&s, &r); s.Reports.Authorities != nil {
			s.Reports.Authorities = map[Authority]Report{a: r} //nolint:exhaustive // one is enough
		}
	}
	return s
}

func troubleWords(list []Trouble) string {
	var out []string
	for _, t := range list {
		late := ""
		if t.Late {
			late = " late"
		}
		if t.Restored {
			late += " restored"
		}
		if t.Unreadable {
			late += " unreadable"
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s%s %s", t.Authority, t.Phase, late, strings.TrimSpace(t.Host+" "+t.Why))))
	}
	return strings.Join(out, "\n")
}

func TestWhatPeopleAreToldOfARotation(t *testing.T) {
	away := func(s *Said, _ *Report) { s.Ready = false }
	old := func(_ *Said, r *Report) { r.Of, r.Began = "before", r.Began.Add(-time.Hour) }
	problem := func(_ *Said, r *Report) {
		r.Problem, r.ByPerson = "kubelet reads it when it starts: holdfast host reboot cp-1", true
	}
	restored := func(_ *Said, r *Report) { r.Problem, r.Restored = "replace it", true }
	damaged := func(_ *Said, r *Report) { *r = Report{Unreadable: true, Problem: "take it away"} }
	silent := func(s *Said, _ *Report) { s.Reports = Reports{} }
	unread := func(_ *Said, r *Report) { r.Trusts, r.Signs = nil, "" }
	soon, later := began.Add(time.Hour), began.Add(3*time.Hour)
	for what, c := range map[string]struct {
		now   time.Time
		hosts []Said
		want  string
	}{
		"nobody says anything":    {later, []Said{{Name: "cp-1", Control: true, Ready: true}}, ""},
		"there never was one":     {later, []Said{says("cp-1", EtcdCA, "", "", "o/o"), says("cp-2", EtcdCA, "", "", "o/o")}, ""},
		"the first has its turn":  {soon, []Said{says("cp-1", EtcdCA, Trust, "cp-1", "o/o"), says("cp-2", EtcdCA, Trust, "cp-1", "o/o")}, "etcd-ca trust waiting for cp-1 to trust the new authority beside the old one"},
		"for hours":               {later, []Said{says("cp-1", EtcdCA, Trust, "cp-1", "o/o"), says("cp-2", EtcdCA, Trust, "cp-1", "o/o")}, "etcd-ca trust late waiting for cp-1 to trust the new authority beside the old one"},
		"the next has no turn":    {soon, []Said{says("cp-1", EtcdCA, Trust, "cp-1", "on/o"), says("cp-2", EtcdCA, Trust, "cp-1", "o/o")}, "etcd-ca trust cp-2 is next, and the command has not given it its turn"},
		"all have done it":        {soon, []Said{says("cp-1", EtcdCA, Sign, "cp-2", "no/n"), says("cp-2", EtcdCA, Sign, "cp-2", "no/n")}, "etcd-ca sign every host has done this phase, and the command has not begun the next one"},
		"tokens live on":          {soon, []Said{says("cp-1", ServiceAccountKey, Sign, "cp-1", "no/n")}, "service-account-key sign every control plane signs with the new key; the command drops the old one once no token of it can be in use: holdfast ca show"},
		"a host is away":          {soon, []Said{says("cp-1", EtcdCA, Sign, "cp-1", "no/n"), says("cp-2", EtcdCA, Trust, "cp-2", "on/o").change(away)}, "etcd-ca sign waiting for cp-2, not ready"},
		"its words are old":       {soon, []Said{says("cp-1", EtcdCA, Done, "", "n/n"), says("cp-2", EtcdCA, Drop, "cp-2", "no/n").change(away)}, ""},
		"a person boots it":       {soon, []Said{says("cp-1", KubernetesCA, Trust, "cp-1", "o/o").change(problem), says("cp-2", KubernetesCA, Trust, "cp-1", "o/o")}, "kubernetes-ca trust waiting for cp-1 to trust the new authority beside the old one; cp-1: kubelet reads it when it starts: holdfast host reboot cp-1"},
		"one has not read it":     {soon, []Said{says("cp-1", EtcdCA, Trust, "cp-1", "on/o"), says("cp-2", EtcdCA, Done, "", "o/o").change(old)}, "etcd-ca trust cp-2 is next, and the command has not given it its turn"},
		"a worker has its turn":   {soon, []Said{says("cp-1", KubernetesCA, Trust, "worker-1", "on/o"), says("worker-1", KubernetesCA, Trust, "worker-1", "o/o")}, "kubernetes-ca trust waiting for worker-1 to trust the new authority beside the old one"},
		"a worker is silent":      {soon, []Said{says("cp-1", KubernetesCA, Trust, "cp-1", "on/o"), says("worker-1", KubernetesCA, Trust, "", "o/o").change(silent)}, "kubernetes-ca trust worker-1 is next, and the command has not given it its turn"},
		"a worker makes one up":   {soon, []Said{says("cp-1", KubernetesCA, Done, "", "n/n"), says("worker-1", KubernetesCA, Drop, "worker-1", "n/n")}, ""},
		"workers have no others":  {soon, []Said{says("cp-1", EtcdCA, Trust, "cp-1", "o/o"), says("worker-1", EtcdCA, Drop, "worker-1", "n/n").change(away)}, "etcd-ca trust waiting for cp-1 to trust the new authority beside the old one"},
		"it is over":              {later, []Said{says("cp-1", EtcdCA, Done, "", "n/n"), says("cp-2", EtcdCA, Done, "", "n/n")}, ""},
		"one has older files":     {later, []Said{says("cp-1", EtcdCA, Done, "", "n/n"), says("cp-2", EtcdCA, Done, "", "o/o")}, "etcd-ca done late cp-2"},
		"one still trusts both":   {later, []Said{says("cp-1", EtcdCA, Done, "", "n/n"), says("cp-2", EtcdCA, Done, "", "no/n")}, "etcd-ca done late cp-2"},
		"one does not know yet":   {later, []Said{says("cp-1", EtcdCA, Done, "", "n/n"), says("cp-2", EtcdCA, Done, "", "n/n").change(unread)}, ""},
		"it comes back later":     {later, []Said{says("cp-1", EtcdCA, Done, "", "n/n"), says("cp-2", EtcdCA, Done, "", "o/o").change(away)}, ""},
		"etcd was restored":       {soon, []Said{says("cp-1", EtcdCA, Done, "", "o/o").change(restored), says("cp-2", EtcdCA, Done, "", "o/o").change(restored)}, "etcd-ca done late restored replace it"},
		"one knows of no other":   {soon, []Said{says("cp-1", EtcdCA, Sign, "cp-1", "o/o"), says("cp-2", EtcdCA, Sign, "cp-1", "o/o").change(restored)}, "etcd-ca sign late restored replace it"},
		"nobody can read it":      {soon, []Said{says("cp-1", EtcdCA, Sign, "cp-1", "o/o").change(damaged), says("cp-2", EtcdCA, Sign, "cp-1", "o/o").change(damaged)}, "etcd-ca  late unreadable take it away"},
		"one can read it":         {soon, []Said{says("cp-1", EtcdCA, Trust, "cp-1", "o/o"), says("cp-2", EtcdCA, Sign, "cp-1", "o/o").change(damaged)}, "etcd-ca  late unreadable take it away"},
		"one could not, and went": {soon, []Said{says("cp-1", EtcdCA, Done, "", "n/n"), says("cp-2", EtcdCA, Sign, "cp-1", "o/o").change(damaged).change(away)}, ""},
		"a worker says so":        {soon, []Said{says("cp-1", KubernetesCA, Done, "", "n/n"), says("worker-1", KubernetesCA, Done, "", "n/n").change(damaged)}, ""},
		"all are away":            {later, []Said{says("cp-1", EtcdCA, Trust, "cp-1", "o/o").change(away)}, "etcd-ca trust late waiting for cp-1, not ready"},
	} {
		if got := troubleWords(Troubles(c.now, c.hosts)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, c.want)
		}
	}
}

func TestSinceWhenARotationTakesLongerThanItShould(t *testing.T) {
	step := began.Add(5 * time.Hour)
	for what, c := range map[string]struct {
		wish Wish
		of   Authority
		want time.Time
	}{
		"none":             {Wish{}, EtcdCA, time.Time{}},
		"one that is over": {wished(Done, ""), EtcdCA, time.Time{}},
		"one that began":   {wished(Trust, "cp-1"), EtcdCA, began.Add(2 * time.Hour)},
		"all trust it":     {trustedAt(step), KubernetesCA, step.Add(2 * time.Hour)},
		"all sign with it": {signedAt(step), EtcdCA, step.Add(2 * time.Hour)},
		"tokens live on":   {signedAt(step), ServiceAccountKey, step.Add(27 * time.Hour)},
		"a longer life":    {lasting(720*time.Hour, signedAt(step)), ServiceAccountKey, step.Add(722 * time.Hour)},
		"a shorter life":   {lasting(time.Hour, signedAt(step)), ServiceAccountKey, step.Add(27 * time.Hour)},
		"none is signed":   {wished(Sign, "cp-1"), ServiceAccountKey, began.Add(2 * time.Hour)},
	} {
		if c.wish.Phase != Done {
			c.wish.Began = began
		}
		if got := c.wish.Late(c.of); !got.Equal(c.want) {
			t.Errorf("%s: late from %s, want %s", what, got, c.want)
		}
	}
}
