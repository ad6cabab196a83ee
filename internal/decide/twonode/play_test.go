package twonode

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pcs plays commands of pcs on a configuration, as the recorded CIBs show what they do.
// An operation that an update names keeps no setting that the update does not name.
type pcs struct {
	t *testing.T
	c Config
}

// nouns are the words that end a list of settings in a command.
var nouns = []string{"op", "meta", "clone"}

// given takes NAME=VALUE words from the beginning of a list.
func given(words []string) (list []Setting, rest []string) {
	for len(words) > 0 && !slices.Contains(nouns, words[0]) && !strings.HasPrefix(words[0], "--") {
		name, v, _ := strings.Cut(words[0], "=")
		list, words = append(list, Setting{Name: name, Value: v}), words[1:]
	}
	return list, words
}

// put sets settings, and keeps the others.
func put(have, change []Setting) []Setting {
	have = slices.Clone(have)
	for _, s := range change {
		i := slices.IndexFunc(have, func(h Setting) bool { return h.Name == s.Name })
		if i < 0 {
			have = append(have, s)
			continue
		}
		have[i].Value = s.Value
	}
	return have
}

func (p *pcs) run(cmd Command) {
	p.t.Helper()
	switch a := cmd.Args; strings.Join(a[:2], " ") {
	case "property set":
		list, _ := given(a[2:])
		p.c.Properties = put(p.c.Properties, list)
	case "resource create", "stonith create":
		class := ""
		if a[0] == fence {
			class = fence + ":"
		}
		p.c.Resources = append(p.c.Resources, Resource{ID: a[2], Agent: class + a[3]})
		p.change(a[2], a[4:])
	case "resource update", "stonith update":
		p.change(a[2], a[3:])
	case "resource clone":
		list, _ := given(a[4:])
		p.resource(a[2]).Clone = &Clone{ID: a[3], Meta: list}
	case "resource meta":
		list, _ := given(a[3:])
		for i := range p.c.Resources {
			if r := &p.c.Resources[i]; r.Clone != nil && r.Clone.ID == a[2] {
				r.Clone = &Clone{ID: a[2], Meta: put(r.Clone.Meta, list)}
			}
		}
	case "constraint delete":
		p.c.Constraints = slices.DeleteFunc(slices.Clone(p.c.Constraints), func(c Constraint) bool { return c.ID == a[2] })
	case "constraint order", "constraint colocation", "constraint location":
		p.constrain(a[1], a[2:])
	default:
		p.t.Fatalf("pcs does not know %q", a)
	}
}

func (p *pcs) resource(id string) *Resource {
	p.t.Helper()
	i := slices.IndexFunc(p.c.Resources, func(r Resource) bool { return r.ID == id })
	if i < 0 {
		p.t.Fatalf("there is no resource %s", id)
	}
	return &p.c.Resources[i]
}

// change reads what follows the name of a resource: parameters, operations, meta
// attributes, a clone.
func (p *pcs) change(id string, words []string) {
	p.t.Helper()
	r := p.resource(id)
	list, words := given(words)
	r.Parameters = put(r.Parameters, list)
	for len(words) > 0 {
		noun, rest := words[0], words[1:]
		switch noun {
		case "op":
			list, rest = given(rest[1:])
			r.Operations = slices.DeleteFunc(slices.Clone(r.Operations), func(o Operation) bool { return o.Name == words[1] })
			r.Operations = append(r.Operations, Operation{Name: words[1], Settings: list})
		case "meta":
			list, rest = given(rest)
			r.Meta = put(r.Meta, list)
		case "clone":
			list, rest = given(rest[1:])
			r.Clone = &Clone{ID: words[1], Meta: list}
		case "--no-default-ops":
		default:
			p.t.Fatalf("pcs does not know %q in %q", noun, words)
		}
		words = rest
	}
}

func (p *pcs) constrain(kind string, a []string) {
	c := Constraint{}
	set := func(name, v string) { c.Settings = append(c.Settings, Setting{Name: name, Value: v}) }
	after := func(prefix string) string {
		i := slices.IndexFunc(a, func(w string) bool { return strings.HasPrefix(w, prefix) })
		if i < 0 {
			p.t.Fatalf("no %s in %q", prefix, a)
		}
		return strings.TrimPrefix(a[i], prefix)
	}
	switch kind {
	case "order":
		c.Kind, c.ID = Order, after("id=")
		set("first", a[1])
		set("first-action", a[0])
		set("then", a[4])
		set("then-action", a[3])
		set("kind", after("kind="))
	case "colocation":
		c.Kind, c.ID = Colocation, after("id=")
		set("rsc", a[1])
		set("with-rsc", a[3])
		set("score", after("score="))
	case "location":
		c.Kind, c.ID = Location, a[1]
		set("rsc", a[2])
		set("node", a[3])
		set("score", a[4])
	}
	p.c.Constraints = append(p.c.Constraints, c)
}

// settle plays steps until none is left, and fails if that takes a second time.
func settle(t *testing.T, what string, have, want Config) Config {
	t.Helper()
	cmds, err := Steps(have, want)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	p := pcs{t, have}
	for _, c := range cmds {
		p.run(c)
	}
	again, err := Steps(p.c, want)
	if err != nil || len(again) > 0 {
		t.Fatalf("%s: after\n%sstill\n%s%v", what, show(cmds), show(again), err)
	}
	return p.c
}

// theirs returns what a person may have beside ours.
func theirs() Config {
	return Config{
		Properties: []Setting{{Name: "placement-strategy", Value: "balanced"}},
		Resources:  []Resource{{ID: "web", Agent: "systemd:nginx", Meta: []Setting{{Name: "priority", Value: "1"}}}},
		Constraints: []Constraint{{ID: "web-here", Kind: Location, Settings: []Setting{
			{Name: "rsc", Value: "web"}, {Name: "node", Value: "cp-1"}, {Name: "score", Value: "INFINITY"},
		}}},
	}
}

// TestASetUpThatIsCutOffAnywhereIsFinished cuts the set-up off before each of its
// commands, beside what is a person's, which stays as it is.
func TestASetUpThatIsCutOffAnywhereIsFinished(t *testing.T) {
	want := Wanted(site())
	all, err := Steps(theirs(), want)
	if err != nil || len(all) < 8 {
		t.Fatalf("%d commands, %v", len(all), err)
	}
	for cut := range len(all) + 1 {
		p := pcs{t, theirs()}
		for _, c := range all[:cut] {
			p.run(c)
		}
		done := settle(t, fmt.Sprintf("cut off after %d", cut), p.c, want)
		done.Corosync = want.Corosync
		if ds := Drift(done, want); len(ds) > 0 {
			t.Fatalf("cut off after %d: %s", cut, told(ds))
		}
		mine := theirs()
		if diff := cmp.Diff(mine.Resources, done.Resources[:1]); diff != "" || !slices.Equal(done.Properties[:1], mine.Properties) {
			t.Fatalf("cut off after %d, somebody's is changed: %s%v", cut, diff, done.Properties[:1])
		}
		if diff := cmp.Diff(mine.Constraints, done.Constraints[:1]); diff != "" {
			t.Fatalf("cut off after %d, somebody's is changed: %s", cut, diff)
		}
	}
}

// spoil makes one change to a configuration, drawn at random, that a person or a
// failure could have made.
func spoil(rng *rand.Rand, c *Config) string {
	lists := every(c)
	list := lists[rng.IntN(len(lists))]
	switch pick := rng.IntN(6); {
	case pick == 0 && len(c.Resources) > 0:
		i := rng.IntN(len(c.Resources))
		what := "resource " + c.Resources[i].ID + " gone"
		c.Resources = slices.Delete(slices.Clone(c.Resources), i, i+1)
		return what
	case pick == 1 && len(c.Constraints) > 0:
		i := rng.IntN(len(c.Constraints))
		what := "constraint " + c.Constraints[i].ID + " gone"
		c.Constraints = slices.Delete(slices.Clone(c.Constraints), i, i+1)
		return what
	case pick == 2 && len(c.Resources) > 0:
		r := &c.Resources[rng.IntN(len(c.Resources))]
		r.Clone = nil
		return r.ID + " not cloned"
	case len(*list) == 0:
		return "nothing"
	case pick == 3:
		i := rng.IntN(len(*list))
		what := (*list)[i].Name + " gone"
		*list = slices.Delete(slices.Clone(*list), i, i+1)
		return what
	default:
		i := rng.IntN(len(*list))
		*list = slices.Clone(*list)
		(*list)[i].Value = "7"
		return (*list)[i].Name + " is 7"
	}
}

// TestWhateverWasSpoiledIsSetBackAtOnce spoils the set-up in up to five places: one
// play of the commands leads back, and what the drift says before is what they do.
func TestWhateverWasSpoiledIsSetBackAtOnce(t *testing.T) {
	want := Wanted(site())
	whole := settle(t, "empty", Config{}, want)
	whole.Corosync = want.Corosync
	rng := rand.New(rand.NewPCG(7, 7))
	for play := range 3000 {
		have := whole
		have.Resources, have.Constraints = slices.Clone(whole.Resources), slices.Clone(whole.Constraints)
		var done []string
		for range 1 + rng.IntN(5) {
			done = append(done, spoil(rng, &have))
		}
		what := fmt.Sprintf("play %d, %s", play, strings.Join(done, ", "))
		have.Corosync = want.Corosync
		cmds, err := Steps(have, want)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		drift := slices.ContainsFunc(Drift(have, want), func(d Difference) bool { return d.Ours })
		who := have.Resources
		other := slices.ContainsFunc(who, func(r Resource) bool {
			v, _ := value(r.Parameters, "node_ip_map")
			return r.ID == Etcd && v != "cp-1:10.98.0.11;cp-2:10.98.0.12"
		})
		if drift != (len(cmds) > 0) && !other {
			t.Fatalf("%s: drift %t and\n%s", what, drift, show(cmds))
		}
		after := settle(t, what, have, want)
		if ds := Drift(after, want); len(ds) > 0 {
			t.Fatalf("%s: %s", what, told(ds))
		}
	}
}
