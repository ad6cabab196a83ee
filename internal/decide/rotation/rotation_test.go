package rotation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// at returns what is seen of two control planes that have these files in use, each
// as its trusted authorities, a slash, and the one that it shows.
func at(w Wish, hosts ...string) Seen {
	s := Seen{Authority: ServiceAccountKey, Wish: w, Now: began.Add(time.Minute), Salt: slices.Repeat([]byte{7}, saltBytes)}
	for i, h := range hosts {
		trusts, shows, _ := strings.Cut(h, "/")
		r := &Report{Of: w.Name(), Trusts: list(trusts), Signs: list(shows)[0]}
		if w.Phase != "" {
			r.New = newKey
		}
		s.Hosts = append(s.Hosts, Host{Name: name(i), Ready: true, ControlPlanes: 2, Report: r})
	}
	return s
}

// kubernetes returns the same of the Kubernetes CA.
func kubernetes(w Wish, hosts ...string) Seen {
	s := at(w, hosts...)
	s.Authority = KubernetesCA
	return s
}

func trustedAt(t time.Time) Wish {
	w := wished(Trust, "cp-2")
	w.Trusted = t
	return w
}

// restored has the last control plane say that it has followed a later rotation.
func restored(s *Seen) { s.Hosts[len(s.Hosts)-1].Report.Restored = true }

func turnOf(host string, w Wish) Wish {
	w.Turn = host
	return w
}

// follows makes the last host one without a key.
func follows(s *Seen) {
	last := len(s.Hosts) - 1
	s.Hosts, s.Followers = s.Hosts[:last:last], s.Hosts[last:]
}

func wished(p Phase, turn string) Wish { return world{phase: p, turn: turn}.wish() }

func signedAt(t time.Time) Wish {
	w := wished(Sign, "cp-2")
	w.Signed = t
	return w
}

// lasting returns a wish in which a life of tokens was named.
func lasting(life time.Duration, w Wish) Wish {
	w.TokenLife = life
	return w
}

func TestWhatIsTheNextStepOfARotation(t *testing.T) {
	in := func(s Seen, change func(*Seen)) Seen { change(&s); return s }
	needs := func(s *Seen) { s.Authority, s.Etcd = EtcdCA, "etcd could not do without cp-1 now: cp-2 is absent" }
	long := began.Add(-30 * time.Hour)
	names := func(life time.Duration) func(*Seen) { return func(s *Seen) { s.TokenLife = life } }
	for what, c := range map[string]struct {
		seen  Seen
		begin bool
		want  string
	}{
		"nothing is wished":             {at(Wish{}, "o/o", "o/o"), false, "settled: all have the same authority and no other one"},
		"a rotation begins":             {at(Wish{}, "o/o", "o/o"), true, "ask trust cp-1: waiting for cp-1 to trust the new authority beside the old one"},
		"the second begins":             {at(wished(Done, ""), "n/n", "n/n"), true, "ask trust cp-1: waiting for cp-1 to trust the new authority beside the old one"},
		"the first does it":             {at(wished(Trust, "cp-1"), "o/o", "o/o"), false, "wait: waiting for cp-1 to trust the new authority beside the old one"},
		"the second has its turn":       {at(wished(Trust, "cp-1"), "on/o", "o/o"), false, "ask trust cp-2: waiting for cp-2 to trust the new authority beside the old one"},
		"all trust both":                {at(wished(Trust, "cp-2"), "on/o", "on/o"), false, "ask sign cp-2: waiting for cp-2 to sign with the new authority"},
		"one signs":                     {at(wished(Sign, "cp-2"), "on/o", "no/n"), false, "ask sign cp-1: waiting for cp-1 to sign with the new authority"},
		"all sign":                      {at(wished(Sign, "cp-1"), "no/n", "no/n"), false, "ask sign cp-1 signed: every control plane signs with the new authority"},
		"tokens live on":                {at(signedAt(began), "no/n", "no/n"), false, "hold: tokens of the old key may be in use until 2026-11-24T19:00:00Z; run the command again then"},
		"a longer life was named":       {at(lasting(720*time.Hour, signedAt(long)), "no/n", "no/n"), false, "hold: tokens of the old key may be in use until 2026-12-22T12:00:00Z; run the command again then"},
		"a shorter life was named":      {at(lasting(time.Hour, signedAt(began)), "no/n", "no/n"), false, "hold: tokens of the old key may be in use until 2026-11-24T19:00:00Z; run the command again then"},
		"a shorter life is named":       {in(at(lasting(2*time.Hour, signedAt(began.Add(-3*time.Hour))), "no/n", "no/n"), names(2*time.Hour)), false, "ask drop cp-2 signed drops: waiting for cp-2 to drop the old authority"},
		"a life is named at last":       {in(at(signedAt(long), "no/n", "no/n"), names(720*time.Hour)), false, "ask sign cp-2 signed: tokens of the old key may be in use for 720h0m0s: later runs know that too"},
		"and one of them is away":       {in(at(wished(Trust, "cp-1"), "on/o", "o/o"), func(s *Seen) { names(time.Hour)(s); s.Hosts[1].Ready = false }), false, "ask trust cp-1: tokens of the old key may be in use for 1h0m0s: later runs know that too"},
		"a CA has no tokens":            {in(kubernetes(wished(Trust, "cp-1"), "o/o", "o/o"), names(time.Hour)), false, "wait: waiting for cp-1 to trust the new authority beside the old one"},
		"tokens are gone":               {at(signedAt(long), "no/n", "no/n"), false, "ask drop cp-2 signed drops: waiting for cp-2 to drop the old authority"},
		"one dropped it":                {at(wished(Drop, "cp-2"), "no/n", "n/n"), false, "ask drop cp-1: waiting for cp-1 to drop the old authority"},
		"all dropped it":                {at(wished(Drop, "cp-1"), "n/n", "n/n"), false, "ask done : the rotation is complete"},
		"one was left behind":           {at(wished(Done, ""), "n/n", "o/o"), true, "wait: a rotation was completed without cp-2"},
		"an upgrade is under way":       {in(at(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Upgrade = "waits for the upgrade" }), true, "refuse: waits for the upgrade"},
		"an upgrade waits for it":       {in(at(wished(Trust, "cp-1"), "on/o", "o/o"), func(s *Seen) { s.Upgrade = "waits for the upgrade" }), false, "ask trust cp-2: waiting for cp-2 to trust the new authority beside the old one"},
		"a host is at work":             {in(at(wished(Trust, "cp-1"), "on/o", "o/o"), func(s *Seen) { s.AtWork = "waits for the upgrade: cp-1 at work" }), false, "wait: waits for the upgrade: cp-1 at work"},
		"they differ":                   {at(Wish{}, "o/o", "n/n"), true, "refuse: cp-1 and cp-2 have different authorities: compare their files"},
		"two are trusted for ever":      {at(Wish{}, "on/n", "on/n"), false, "due: no single authority is trusted: cp-1 trusts old and new, cp-2 trusts old and new. Replace it, and each has the new one alone: holdfast ca rotate service-account-key"},
		"one of two trusts two":         {at(Wish{}, "on/n", "n/n"), false, "due: no single authority is trusted: cp-1 trusts old and new, cp-2 trusts new. Replace it, and each has the new one alone: holdfast ca rotate service-account-key"},
		"one trusts not what is shown":  {at(Wish{}, "on/o", "n/n"), true, "refuse: cp-1 and cp-2 have different authorities: compare their files"},
		"a host says nothing of files":  {in(at(Wish{}, "o/o"), func(s *Seen) { s.Hosts[0].ControlPlanes, s.Hosts[0].Report.Trusts = 1, nil }), false, "due: no single authority is trusted: cp-1 trusts what it does not say. Replace it, and each has the new one alone: holdfast ca rotate service-account-key"},
		"one of several is left":        {at(Wish{}, "on/n", "on/n"), true, "ask trust cp-1: waiting for cp-1 to trust the new authority beside the old one"},
		"etcd was restored":             {in(at(wished(Done, ""), "o/o", "o/o"), restored), false, "due: etcd was restored from before the last rotation, and the hosts keep what they have. Replace it, and each has the new one alone: holdfast ca rotate service-account-key"},
		"in the middle of an older one": {in(at(wished(Sign, "cp-1"), "o/o", "o/o"), restored), false, "due: etcd was restored from before the last rotation, and the hosts keep what they have. Replace it, and each has the new one alone: holdfast ca rotate service-account-key"},
		"it is replaced once more":      {in(at(wished(Sign, "cp-1"), "o/o", "o/o"), func(s *Seen) { restored(s); s.Salt = slices.Repeat([]byte{8}, saltBytes) }), true, "ask trust cp-1: waiting for cp-1 to trust the new authority beside the old one"},
		"restored, and one is away":     {in(at(wished(Sign, "cp-1"), "o/o", "o/o"), func(s *Seen) { restored(s); s.Hosts[0].Ready = false }), true, "refuse: cp-1 has its turn and is not ready: programs of it start again. Does it last for minutes? Look at that host: holdfast status"},
		"restored, and they differ":     {in(at(wished(Done, ""), "o/o", "n/n"), restored), true, "refuse: cp-1 and cp-2 have different authorities: compare their files"},
		"restored before another one":   {in(at(wished(Trust, "cp-1"), "o/o", "o/o"), func(s *Seen) { restored(s); s.Hosts[1].Report.Of = "before" }), false, "wait: waiting for cp-1 to trust the new authority beside the old one"},
		"an authority of no code":       {in(at(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Authority = "join-key" }), true, "refuse: this release cannot replace the authority join-key"},
		"a host is of before":           {in(kubernetes(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Hosts[1].Report.Unable = "it signs by ca.crt" }), true, "refuse: cp-2: it signs by ca.crt"},
		"a worker is absent":            {in(kubernetes(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Followers = []Host{{Name: "worker-1", Report: s.Hosts[0].Report}} }), true, "refuse: worker-1 not ready: an absent host would not trust what the others sign; bring it back, or if it is gone for good: holdfast host remove worker-1 --is-off worker-1"},
		"a worker came meanwhile":       {in(kubernetes(wished(Sign, "cp-1"), "no/n", "no/n"), func(s *Seen) { s.Followers = []Host{{Name: "worker-1", Ready: true}} }), false, "wait: worker-1 does not report its authorities: the site was installed before this release could replace them, the host is being installed, or its agent is not running"},
		"workers have their turn last":  {in(kubernetes(wished(Trust, "cp-2"), "on/o", "on/o", "o/o"), follows), false, "ask trust cp-3: waiting for cp-3 to trust the new authority beside the old one"},
		"a worker does not sign first":  {in(kubernetes(turnOf("cp-3", trustedAt(long)), "on/o", "on/o", "on/o"), follows), false, "ask sign cp-1 trusted signs: waiting for cp-1 to sign with the new authority"},
		"a worker does not drop first":  {in(kubernetes(turnOf("cp-3", signedAt(long)), "no/n", "no/n", "on/n"), follows), false, "ask drop cp-1 signed drops: waiting for cp-1 to drop the old authority"},
		"a worker is waited for":        {in(kubernetes(wished(Sign, "cp-3"), "no/n", "no/n", "on/o"), func(s *Seen) { follows(s); s.Followers[0].Report.Problem = "not signed" }), false, "wait: waiting for cp-3 to sign with the new authority; cp-3: not signed"},
		"a worker has other files":      {in(kubernetes(Wish{}, "o/o", "o/o", "n/n"), follows), true, "refuse: cp-1 and cp-3 have different authorities: compare their files"},
		"a person has to boot it":       {in(kubernetes(wished(Trust, "cp-1"), "o/o", "o/o"), func(s *Seen) { s.Hosts[0].Report.Problem, s.Hosts[0].Report.ByPerson = "boot it", true }), false, "hold: waiting for cp-1 to trust the new authority beside the old one; cp-1: boot it"},
		"another one has to be booted":  {in(kubernetes(wished(Trust, "cp-1"), "o/o", "o/o"), func(s *Seen) { s.Hosts[1].Report.ByPerson = true }), false, "wait: waiting for cp-1 to trust the new authority beside the old one"},
		"pods do not know it":           {in(kubernetes(wished(Trust, "cp-1"), "on/o", "on/o"), func(s *Seen) { s.Stale = []string{"a/x", "b/x", "c/x", "d/x"} }), false, "wait: waiting until the controller manager has written what is trusted for pods, 4 ConfigMaps to go: a/x, b/x, c/x"},
		"hosts that join do not":        {in(kubernetes(wished(Trust, "cp-1"), "on/o", "on/o"), func(s *Seen) { s.StaleInfo = true }), false, "inform: what is trusted is written for hosts that join by kubeadm"},
		"all trust the new one":         {kubernetes(wished(Trust, "cp-1"), "on/o", "on/o"), false, "ask trust cp-1 trusted: every control plane trusts the new authority, and the API publishes it"},
		"programs read it":              {kubernetes(trustedAt(began), "on/o", "on/o"), false, "wait: programs that follow their authority have read it by 2026-11-23T18:12:00Z"},
		"programs have read it":         {kubernetes(trustedAt(long), "on/o", "on/o"), false, "ask sign cp-2 trusted signs: waiting for cp-2 to sign with the new authority"},
		"the pod network is older":      {in(kubernetes(trustedAt(long), "on/o", "on/o"), func(s *Seen) { s.Former, s.Restart = []string{"a", "b"}, "kubectl x" }), false, "hold: the pod network reads its authority only when it starts, and does not know the new one: a, b. Start it anew: kubectl x"},
		"programs read what they show":  {kubernetes(signedAt(began), "no/n", "no/n"), false, "wait: programs that follow their certificate have read it by 2026-11-23T18:12:00Z"},
		"they have read that":           {kubernetes(signedAt(long), "no/n", "no/n"), false, "ask drop cp-2 signed drops: waiting for cp-2 to drop the old authority"},
		"pods know the old one":         {in(kubernetes(wished(Drop, "cp-1"), "n/n", "n/n"), func(s *Seen) { s.Stale = []string{"a/x"} }), false, "wait: waiting until the controller manager has written what is trusted for pods, 1 ConfigMaps to go: a/x"},
		"etcd needs both":               {in(at(Wish{}, "o/o", "o/o"), needs), true, "refuse: etcd could not do without cp-1 now: cp-2 is absent"},
		"etcd needs both, meanwhile":    {in(at(wished(Trust, "cp-1"), "on/o", "o/o"), needs), false, "wait: etcd could not do without cp-1 now: cp-2 is absent"},
		"etcd is being restarted":       {in(at(wished(Trust, "cp-1"), "o/o", "o/o"), needs), false, "wait: waiting for cp-1 to trust the new authority beside the old one"},
		"etcd's CA waits for no tokens": {in(at(signedAt(began), "no/n", "no/n"), func(s *Seen) { s.Authority = EtcdCA }), false, "ask drop cp-2 signed drops: waiting for cp-2 to drop the old authority"},
		"one is away at the start":      {in(at(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Hosts[1].Ready = false }), true, "refuse: cp-2 not ready: an absent host would not trust what the others sign; bring it back, or if it is gone for good: holdfast host replace cp-2"},
		"one is away in the middle":     {in(at(wished(Trust, "cp-2"), "on/o", "on/o"), func(s *Seen) { s.Hosts[0].Ready = false }), false, "wait: cp-1 not ready: an absent host would not trust what the others sign; bring it back, or if it is gone for good: holdfast host replace cp-1"},
		"it is away in its turn":        {in(at(wished(Trust, "cp-1"), "on/o", "on/o"), func(s *Seen) { s.Hosts[0].Ready = false }), false, "wait: cp-1 has its turn and is not ready: programs of it start again. Does it last for minutes? Look at that host: holdfast status"},
		"others are away too":           {in(at(wished(Trust, "cp-1"), "on/o", "on/o"), func(s *Seen) { s.Hosts[0].Ready, s.Hosts[1].Ready = false, false }), false, "wait: cp-1 and cp-2 not ready: an absent host would not trust what the others sign; bring it back, or if it is gone for good: holdfast host replace cp-1; holdfast host replace cp-2"},
		"one says nothing":              {in(at(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Hosts[1].Report = nil }), true, "refuse: cp-2 does not report its authorities: the site was installed before this release could replace them, the host is being installed, or its agent is not running"},
		"one has no root":               {in(at(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Hosts[1].NoRoot = true }), true, "refuse: cp-2 cannot derive a new key: the site was installed before its secrets in etcd were encrypted"},
		"one has no Node":               {at(Wish{}, "o/o"), true, "refuse: only 1 of 2 control planes have a Node"},
		"one renews":                    {in(at(Wish{}, "o/o", "o/o"), func(s *Seen) { s.Hosts[1].Renews = true }), true, "refuse: renewing certificates now: cp-2"},
		"nobody is known":               {at(Wish{}), true, "refuse: no control plane is known"},
		"they derive others":            {in(at(wished(Trust, "cp-2"), "on/o", "o/o"), func(s *Seen) { s.Hosts[1].Report.New = "else" }), false, "wait: cp-1 and cp-2 derive different keys: the encryptionRoot in their /etc/holdfast/site.json differs"},
		"one has a problem":             {in(at(wished(Trust, "cp-1"), "o/o", "o/o"), func(s *Seen) { s.Hosts[0].Report.Problem = "no root" }), false, "wait: waiting for cp-1 to trust the new authority beside the old one; cp-1: no root"},
		"an old report counts not":      {in(at(wished(Trust, "cp-1"), "on/o", "on/o"), func(s *Seen) { s.Hosts[0].Report.Of = "before" }), false, "wait: waiting for cp-1 to trust the new authority beside the old one"},
		"a worker is away":              {in(at(signedAt(long), "no/n", "no/n"), func(s *Seen) { s.Absent = []string{"worker-1"} }), false, "hold: not ready: worker-1. Their pods may use tokens of the old key: bring them back, or delete their Nodes if they are gone for good"},
		"a Secret holds a token":        {in(at(signedAt(long), "no/n", "no/n"), func(s *Seen) { s.Tokens = []string{"shop/robot"} }), false, "hold: these Secrets hold tokens of the old key, which nothing renews: shop/robot. Delete each, or its data key token, and give its reader the new token"},
		"it is not published":           {in(at(wished(Trust, "cp-2"), "on/o", "on/o"), func(s *Seen) { s.Authority, s.Published = FrontProxyCA, []ID{oldKey} }), false, "wait: waiting until the API publishes the new authority to other servers"},
		"a CA waits for no tokens":      {in(at(signedAt(began), "no/n", "no/n"), func(s *Seen) { s.Authority, s.Published = FrontProxyCA, []ID{oldKey, newKey} }), false, "ask drop cp-2 signed drops: waiting for cp-2 to drop the old authority"},
		"the old one is published":      {in(at(wished(Drop, "cp-1"), "n/n", "n/n"), func(s *Seen) { s.Authority, s.Published = FrontProxyCA, []ID{oldKey, newKey} }), false, "clean n: the old authority is taken from what the API publishes to other servers"},
	} {
		if got := words(Next(c.seen, c.begin)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, c.want)
		}
	}
}

func words(s Step) string {
	out := string(s.Kind)
	switch s.Kind {
	case Ask:
		out += fmt.Sprintf(" %s %s", s.Wish.Phase, s.Wish.Turn)
		if !s.Wish.Trusted.IsZero() {
			out += " trusted"
		}
		if !s.Wish.Signed.IsZero() {
			out += " signed"
		}
		if s.Signs {
			out += " signs"
		}
		if s.Drops {
			out += " drops"
		}
	case Clean:
		out += " " + text([]ID{s.Keep})
	case Refuse, Wait, Hold, Settled, Due, Inform:
	}
	return out + ": " + s.Why
}

func TestWhatAHostChangesNext(t *testing.T) {
	for what, c := range map[string]struct {
		wish Wish
		have string // trusts/key/leaf, with ! if programs have not read them
		want string
	}{
		"nothing is wished":         {Wish{}, "o/o/o", "rest"},
		"nothing, but to read":      {Wish{}, "o/o/o!", "rest"},
		"another one's turn":        {wished(Trust, "cp-2"), "o/o/o", "rest"},
		"nobody's turn":             {wished(Trust, ""), "o/o/o", "rest"},
		"its turn to trust":         {wished(Trust, "cp-1"), "o/o/o", "write trusts on"},
		"written, and not read":     {wished(Trust, "cp-1"), "on/o/o!", "load"},
		"trusted":                   {wished(Trust, "cp-1"), "on/o/o", "rest"},
		"its turn to sign":          {wished(Sign, "cp-1"), "on/o/o", "write key"},
		"the signing one is first":  {wished(Sign, "cp-1"), "on/n/o!", "write trusts no"},
		"what it shows":             {wished(Sign, "cp-1"), "no/n/o!", "write leaf"},
		"all is written":            {wished(Sign, "cp-1"), "no/n/n!", "load"},
		"it signs":                  {wished(Sign, "cp-1"), "no/n/n", "rest"},
		"its turn to drop":          {wished(Drop, "cp-1"), "no/n/n", "write trusts n"},
		"not before it is read":     {wished(Drop, "cp-1"), "no/n/n!", "load"},
		"dropped":                   {wished(Drop, "cp-1"), "n/n/n", "rest"},
		"it was away all the time":  {wished(Done, ""), "o/o/o", "write trusts on"},
		"older files were put back": {wished(Done, ""), "no/o/o", "write key"},
		"complete":                  {wished(Done, ""), "n/n/n", "rest"},
	} {
		part := strings.Split(strings.TrimSuffix(c.have, "!"), "/")
		got := NextChange(c.wish, "cp-1", newKey, Have{
			Trusts: list(part[0]), Key: list(part[1])[0], Leaf: list(part[2])[0], Loaded: !strings.HasSuffix(c.have, "!"),
		})
		if text := strings.TrimSpace(string(got.Act) + " " + text(got.Trusts)); text != c.want {
			t.Errorf("%s: %s, want %s", what, text, c.want)
		}
	}
}

// A life of tokens that is named at the begin is in the wish; what was named is not lost later.
func TestTheLifeOfTokensThatWasNamedStaysInTheWish(t *testing.T) {
	s := at(Wish{}, "o/o", "o/o")
	s.TokenLife = 720 * time.Hour
	if got := Next(s, true); got.Kind != Ask || got.Wish.TokenLife != s.TokenLife {
		t.Errorf("%+v", got)
	}
	for _, c := range []Seen{
		at(lasting(720*time.Hour, wished(Trust, "cp-1")), "on/o", "o/o"),
		at(lasting(720*time.Hour, wished(Sign, "cp-1")), "no/n", "no/n"),
		at(lasting(720*time.Hour, signedAt(began.Add(-721*time.Hour))), "no/n", "no/n"),
	} {
		if got := Next(c, false); got.Kind != Ask || got.Wish.TokenLife != 720*time.Hour {
			t.Errorf("%+v", got)
		}
	}
}

func TestAWishIsReadAsItWasWritten(t *testing.T) {
	w := lasting(time.Hour, signedAt(began.Add(time.Hour)))
	got, err := ParseWish([]byte(w.String()))
	if err != nil || got.String() != w.String() || got.Name() != w.Name() || len(w.Name()) != 16 {
		t.Errorf("%s, want %s: %v", got, w, err)
	}
	if text := signedAt(began).String(); strings.Contains(text, "tokenLife") { // as earlier releases write it
		t.Error(text)
	}
	if got, err := ParseWish(nil); err != nil || got.Phase != "" || got.Name() != "" || got.Running() {
		t.Errorf("nothing: %s %v", got, err)
	}
	for _, text := range []string{"x", "{}", `{"phase":"later"}`, `{"phase":"trust","salt":"aHVzaA==","began":"2026-11-23T18:00:00Z"}`} {
		if _, err := ParseWish([]byte(text)); err == nil || strings.Contains(err.Error(), "aHVz") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAWishThatCannotBeReadSaysWhatToType(t *testing.T) {
	if _, err := WishOf(EtcdCA, []byte(`{"phase":"later","salt":"aHVzaA=="}`)); !errors.Is(err, ErrWish) || strings.Contains(err.Error(), "aHVz") ||
		!strings.HasSuffix(err.Error(), `kubectl -n kube-system patch secret holdfast-authorities --type=json -p '[{"op":"remove","path":"/data/etcd-ca"}]'`) {
		t.Errorf("%v", err)
	}
	if w, err := WishOf(EtcdCA, []byte(wished(Sign, "cp-1").String())); err != nil || w.Phase != Sign {
		t.Errorf("%+v %v", w, err)
	}
}

func TestAHostIsQuietWhileNobodyReplacesAnAuthorityAndItsProgramsHaveReadAllFiles(t *testing.T) {
	for what, c := range map[string]struct {
		is   Report
		want bool
	}{
		"before the first rotation":     {Report{Trusts: []ID{"a"}}, true},
		"after one":                     {Report{Phase: Done, Trusts: []ID{"a"}}, true},
		"in one":                        {Report{Phase: Sign, Trusts: []ID{"a"}}, false},
		"with a problem":                {Report{Problem: "x", Trusts: []ID{"a"}}, false},
		"a program has not read a file": {Report{}, false},
	} {
		r := Reports{Authorities: make(map[Authority]Report)}
		for _, a := range Authorities() {
			r.Authorities[a] = Report{Trusts: []ID{"b"}}
		}
		r.Authorities[FrontProxyCA] = c.is
		if got := r.Quiet(); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
