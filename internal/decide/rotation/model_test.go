package rotation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The model has the decisions of this package, and a world of two or three control
// planes around them. Every order of their moves is played.

const (
	oldKey ID = "old"
	newKey ID = "new"
)

// files are what a host's disk holds, or what its programs have read of it. A host
// that shows several leaf certificates may have those of two authorities: "on".
type files struct{ trusts, key, leaf string }

// modelHost is one control plane.
type modelHost struct {
	disk, used files
	// pending is the durable mark that programs have not read the files yet.
	pending, away bool
	// said is what the API has of it.
	said     files
	saidOf   string
	saidBusy bool
	// saidPhase and saidTurn are the rest of what it says of the wish. Only a host
	// without a key asks for it, so without one they stay empty.
	saidPhase Phase
	saidTurn  string
}

type world struct {
	hosts [3]modelHost
	// follows is true if the last host is a worker, which has no key.
	follows bool
	phase   Phase
	turn    string
	// signed is true once the wish says since when nothing old is signed, late once
	// the life of tokens has passed since.
	signed, late bool
	// known is true once the wish says since when all trust the new one.
	known bool
	// tokens is true while somebody holds a token of the old key.
	tokens    bool
	published string
	// pods is what pods trust: what a controller manager of any host has written last.
	pods string
}

var began = time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)

func (w world) wish() Wish {
	if w.phase == "" {
		return Wish{}
	}
	out := Wish{Phase: w.phase, Salt: make([]byte, saltBytes), Began: began, Turn: w.turn}
	if w.signed {
		out.Signed = began
	}
	if w.known {
		out.Trusted = began.Add(-time.Hour) // the time is not what this model is about
	}
	return out
}

func list(text string) []ID {
	var out []ID
	for _, r := range text {
		out = append(out, map[rune]ID{'o': oldKey, 'n': newKey}[r])
	}
	return out
}

func text(ids []ID) (out string) {
	for _, id := range ids {
		out += string(id[0])
	}
	return out
}

func name(i int) string { return fmt.Sprintf("cp-%d", i+1) }

func (w world) seen(a Authority, n int) Seen {
	s := Seen{Authority: a, Wish: w.wish(), Now: began, Salt: make([]byte, saltBytes)}
	if w.late {
		s.Now = began.Add(TokenLife + time.Hour)
	}
	if a == FrontProxyCA || a == KubernetesCA {
		s.Published = list(w.published)
	}
	for i, h := range w.hosts[:n] {
		r := &Report{Of: h.saidOf, Phase: h.saidPhase, Turn: h.saidTurn, Trusts: list(h.said.trusts), Signs: list(h.said.leaf)[0]}
		if h.saidOf != "" {
			r.New = newKey
		}
		if h.saidBusy {
			r.Trusts, r.Signs = nil, ""
		}
		s.Hosts = append(s.Hosts, Host{Name: name(i), Ready: !h.away, Report: r, ControlPlanes: w.controls(n)})
	}
	if w.follows {
		follows(&s)
	}
	if a == KubernetesCA {
		s.Stale = Stale(map[string][]ID{"pods": list(w.pods)}, s.Hosts)
	}
	return s
}

// moves returns the worlds that can follow.
func (w world) moves(a Authority, n int) []world {
	var out []world
	for i := range w.hosts[:n] {
		next := w
		next.hosts[i].away = !next.hosts[i].away // it is cut off, or comes back
		out = append(out, next)
		next = w
		next.hosts[i].used = next.hosts[i].disk // it boots, whatever the agent has written
		out = append(out, next)
		if !w.hosts[i].away {
			out = append(out, w.hostStep(a, i, n)...)
		}
	}
	if w.signed && !w.late {
		next := w
		next.late = true
		next.tokens = slices.ContainsFunc(w.hosts[:n], func(h modelHost) bool { return h.used.leaf == "o" })
		out = append(out, next)
	}
	if a == KubernetesCA {
		for _, h := range w.hosts[:w.controls(n)] {
			next := w
			next.pods = h.used.trusts
			out = append(out, next)
		}
	}
	return append(out, w.publish(n), w.command(a, n))
}

// controls is the number of control planes.
func (w world) controls(n int) int {
	if w.follows {
		return n - 1
	}
	return n
}

// next returns what a host changes: a worker knows the wish by what the control planes
// said.
func (w world) next(i, n int, have Have) Change {
	if i < w.controls(n) {
		return NextChange(w.wish(), name(i), newKey, have)
	}
	o, err := agreed(w.seen(KubernetesCA, n).Hosts)
	if err != nil {
		return Change{Act: Rest}
	}
	c, _ := Follow(o, name(i), have, list(w.pods))
	if c.Act == WriteLeaf && !slices.ContainsFunc(w.hosts[:w.controls(n)], func(h modelHost) bool { return h.disk.leaf == "n" }) {
		return Change{Act: Rest} // nobody signs by the new one
	}
	return c
}

// publish lets an API server add what it trusts to what the API publishes.
func (w world) publish(n int) world {
	for _, h := range w.hosts[:w.controls(n)] {
		for _, r := range h.used.trusts {
			if !slices.Contains([]rune(w.published), r) {
				w.published += string(r)
			}
		}
	}
	return w
}

// hostStep returns what the agent of a host can make of the world by one effect.
// Between any two of them the power may be cut: an agent keeps nothing in memory.
func (w world) hostStep(a Authority, i, n int) []world {
	h := &w.hosts[i]
	said := w
	said.hosts[i].said, said.hosts[i].saidOf, said.hosts[i].saidBusy = h.used, w.wish().Name(), h.pending
	if w.follows {
		said.hosts[i].saidPhase, said.hosts[i].saidTurn = w.phase, w.turn
	}
	c := w.next(i, n, Have{Trusts: list(h.disk.trusts), Key: list(h.disk.key)[0], Leaf: list(h.disk.leaf)[0], Loaded: !h.pending})
	if c.Act == Rest {
		return []world{said}
	}
	if c.Act == Load {
		h.used = h.disk
		read := w
		h.pending = false
		return []world{said, read, w}
	}
	h.pending = true // the mark is written before the files
	marked := w
	switch c.Act {
	case WriteTrusts:
		h.disk.trusts = text(c.Trusts)
	case WriteKey:
		h.disk.key = "n"
		if a == ServiceAccountKey {
			h.disk.leaf = "n"
		}
	case WriteLeaf:
		if (a == EtcdCA || a == KubernetesCA && i < w.controls(n)) && h.disk.leaf == "o" {
			h.disk.leaf = "on" // it has several, and each is a write of its own
		} else {
			h.disk.leaf = "n"
		}
	case Rest, Load:
	}
	live := w // a file that programs follow may be read before the agent knows
	if a == EtcdCA {
		live.hosts[i].used.leaf = h.disk.leaf // what is trusted is read at the start alone
	} else {
		live.hosts[i].used = h.disk
	}
	return []world{said, marked, w, live}
}

// command lets `holdfast ca rotate` take one step.
func (w world) command(a Authority, n int) world {
	switch step := Next(w.seen(a, n), w.phase == ""); step.Kind {
	case Ask:
		w.phase, w.turn, w.signed, w.known = step.Wish.Phase, step.Wish.Turn, !step.Wish.Signed.IsZero(), !step.Wish.Trusted.IsZero()
	case Clean:
		w.published = "n"
	case Refuse, Wait, Hold, Settled, Due, Inform:
	}
	return w
}

// wrong says what somebody shows that another one does not trust.
func (w world) wrong(a Authority, n int) string {
	if busy := slices.DeleteFunc(slices.Clone(w.hosts[:n]), func(h modelHost) bool { return !h.pending }); len(busy) > 1 {
		return fmt.Sprintf("%d hosts have programs read their files at the same time", len(busy))
	}
	for i, shows := range w.hosts[:n] {
		if a == KubernetesCA && !holds(w.pods, shows.used.leaf) {
			return fmt.Sprintf("%s shows %s, and pods do not trust that", name(i), shows.used.leaf)
		}
		if (a == FrontProxyCA || a == KubernetesCA) && !holds(w.published, shows.used.leaf) {
			return fmt.Sprintf("%s shows %s, and the API does not publish that", name(i), shows.used.leaf)
		}
		for j, trusts := range w.hosts[:n] {
			if !holds(trusts.used.trusts, shows.used.leaf) {
				return fmt.Sprintf("%s shows %s, and %s does not trust that", name(i), shows.used.leaf, name(j))
			}
		}
		if a == ServiceAccountKey && w.tokens && !slices.Contains([]rune(shows.used.trusts), 'o') {
			return name(i) + " does not trust tokens that are in use"
		}
	}
	return ""
}

// holds reports whether a list holds each authority of another one.
func holds(list, all string) bool {
	return !strings.ContainsFunc(all, func(r rune) bool { return !strings.ContainsRune(list, r) })
}

// TestNobodyEverShowsWhatAnotherOneDoesNotTrust plays every order of a rotation's
// moves: hosts go away, boot and lose their power between any two writes, and the
// command is interrupted anywhere. From each world the rotation can be completed.
func TestNobodyEverShowsWhatAnotherOneDoesNotTrust(t *testing.T) {
	for _, a := range Authorities() {
		for _, n := range []int{1, 2, 3, -2, -3} {
			follows := n < 0 // the last one is a worker
			if n = max(n, -n); follows && a != KubernetesCA {
				continue
			}
			t.Run(fmt.Sprintf("%s on %d, %t", a, n, follows), func(t *testing.T) {
				begin := world{follows: follows, tokens: a == ServiceAccountKey, published: "o", pods: "o"}
				for i := range begin.hosts[:n] {
					f := files{"o", "o", "o"}
					begin.hosts[i] = modelHost{disk: f, used: f, said: f}
				}
				followers := explore(t, begin, a, n)
				var ends []world
				for w := range followers {
					if w.phase == Done {
						ends = append(ends, w)
					}
				}
				if len(ends) == 0 {
					t.Fatal("no rotation is ever complete")
				}
				if stuck := len(followers) - len(leadTo(followers, ends)); stuck > 0 {
					t.Errorf("from %d of %d worlds no way leads to the end", stuck, len(followers))
				}
				t.Logf("%d worlds", len(followers))
			})
		}
	}
}

// explore returns all worlds that can be reached, each with those that can follow.
func explore(t *testing.T, begin world, a Authority, n int) map[world][]world {
	t.Helper()
	followers := map[world][]world{begin: nil}
	for todo := []world{begin}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if why := w.wrong(a, n); why != "" {
			t.Fatalf("%s: %+v", why, w)
		}
		followers[w] = w.moves(a, n)
		for _, next := range followers[w] {
			if _, known := followers[next]; !known {
				followers[next] = nil
				todo = append(todo, next)
			}
		}
	}
	return followers
}

// leadTo returns the worlds from which one of the ends can be reached.
func leadTo(followers map[world][]world, ends []world) map[world]bool {
	before := map[world][]world{}
	for w, list := range followers {
		for _, next := range list {
			before[next] = append(before[next], w)
		}
	}
	out := map[world]bool{}
	for todo := ends; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !out[w] {
			out[w] = true
			todo = append(todo, before[w]...)
		}
	}
	return out
}

// TestTheModelFindsAWrongOrder drops the old authority too early, and signs before
// all trust: the model has to say so.
func TestTheModelFindsAWrongOrder(t *testing.T) {
	good := files{"o", "o", "o"}
	for what, w := range map[string]world{
		"signs before all trust": {hosts: [3]modelHost{{used: files{"on", "n", "n"}}, {used: good}}, published: "on"},
		"drops before all sign":  {hosts: [3]modelHost{{used: files{"n", "n", "n"}}, {used: files{"no", "o", "o"}}}, published: "on"},
		"has signed half":        {hosts: [3]modelHost{{used: files{"on", "n", "on"}}, {used: files{"n", "n", "n"}}}, published: "on"},
		"drops while tokens are": {hosts: [3]modelHost{{used: files{"n", "n", "n"}}, {used: files{"n", "n", "n"}}}, published: "on", tokens: true},
	} {
		if w.wrong(ServiceAccountKey, 2) == "" {
			t.Errorf("%s: nothing is said", what)
		}
	}
	w := world{hosts: [3]modelHost{{used: files{"on", "n", "n"}}, {used: files{"on", "o", "o"}}}, published: "o"}
	if w.wrong(FrontProxyCA, 2) == "" || w.wrong(ServiceAccountKey, 2) != "" {
		t.Error("what the API publishes is not looked at")
	}
	if got := leadTo(map[world][]world{w: nil}, nil); len(got) != 0 {
		t.Error("no end, and yet a way")
	}
}
