package drain_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// site is a small cluster in which a host is drained: what the API holds of the host,
// and who cordoned it.
type site struct {
	annotations map[string]string
	cordoned    bool
	// persons is set while the cordon is one of a person.
	persons bool
	// alone is set while no other host takes pods. away is for how long the one that does is not
	// ready, 0 if it is.
	alone bool
	away  time.Duration
	// pods are those of the host, by their kinds.
	pods string
}

// The kinds of pods that are there or not: one of a ReplicaSet, one that its budget
// holds back, one that others need, one that is nobody's. One of a DaemonSet, "d", is
// always there.
const kinds = "whcn"

func (s site) key() string {
	return fmt.Sprint(s.annotations, s.cordoned, s.persons, s.alone, s.away, s.pods)
}

func (s site) facts() drain.Facts {
	f := facts(s.cordoned)
	f.Node.Annotations = maps.Clone(s.annotations)
	if s.away > 0 {
		f.Others[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon.Add(-s.away))}}
	}
	if s.alone {
		f.Others = nil
	}
	for _, kind := range s.pods {
		p := pod(string(kind), map[rune]func(*corev1.Pod){'w': nothing, 'h': nothing, 'c': critical, 'n': nobodys, 'd': of("DaemonSet")}[kind])
		f.Pods = append(f.Pods, p)
	}
	return f
}

func nothing(*corev1.Pod) {}

// written returns the site after a write of the operator.
func (s site) written(c *drain.Change) site {
	s.annotations = maps.Clone(s.annotations)
	for name, value := range c.Annotations {
		if delete(s.annotations, name); value != nil {
			s.annotations[name] = *value
		}
	}
	if c.Unschedulable != nil {
		s.cordoned = *c.Unschedulable
	}
	return s
}

// look does what the operator does at one look: it writes, or evicts and then writes.
// It returns the site before the last write, which may be lost, and after it.
func (s site) look() (before, after site, evicted string, wrote *drain.Change) {
	f := s.facts()
	step := drain.Begin(f)
	if step.Change == nil && step.Again != 0 {
		f.Refused = map[types.UID]string{}
		for _, p := range step.Evict {
			evicted += p.Name
			if p.Name == "h" {
				f.Refused[p.UID] = "not now"
				continue
			}
			s.pods = strings.ReplaceAll(s.pods, p.Name, "")
		}
		step = drain.Judge(f)
	}
	after = s
	if step.Change != nil {
		after = s.written(step.Change)
	}
	return s, after, evicted, step.Change
}

// wishes are all that a host asks for.
var wishes = []string{drain.Before("1"), drain.After("1"), drain.Before("2")}

// others returns the sites after something that the operator does not do: the host
// asks for something, a person cordons or uncordons it, a pod comes or its budget lets
// it go, other hosts come and go.
func (s site) others() []site {
	var out []site
	with := func(change func(*site)) {
		next := s
		next.annotations = maps.Clone(s.annotations)
		change(&next)
		out = append(out, next)
	}
	for _, wish := range wishes {
		with(func(n *site) { n.annotations[drain.Desired] = wish })
	}
	with(func(n *site) { n.annotations[drain.Wanted] = "now" })
	with(func(n *site) { delete(n.annotations, drain.Wanted) })
	// The operator looks at each change of a cordon, so it has seen that its own is gone
	// before a person makes another one: nothing tells the two apart.
	if _, ours := s.annotations[drain.CordonedBy]; s.cordoned || !ours {
		with(func(n *site) { n.persons, n.cordoned = n.persons || !n.cordoned, true })
	}
	with(func(n *site) { n.persons, n.cordoned = false, false })
	with(func(n *site) { n.alone = !n.alone })
	for _, away := range []time.Duration{0, time.Minute, time.Hour} {
		with(func(n *site) { n.away = away })
	}
	with(func(n *site) { n.pods = strings.ReplaceAll(n.pods, "h", "w") })
	with(func(n *site) { n.pods = strings.ReplaceAll(n.pods, "n", "") })
	if !s.cordoned && !strings.Contains(s.pods, "w") {
		with(func(n *site) { n.pods += "w" })
	}
	return out
}

// everySite returns each site that can come about.
var everySite = sync.OnceValue(func() []site {
	var out []site
	seen := map[string]bool{}
	add := func(list ...site) {
		for _, s := range list {
			p := []rune(s.pods)
			slices.Sort(p)
			s.pods = string(p)
			if key := s.key(); !seen[key] {
				seen[key], out = true, append(out, s)
			}
		}
	}
	for set := range 1 << len(kinds) {
		s := site{annotations: map[string]string{}, pods: "d"}
		for i, kind := range kinds {
			if set&(1<<i) != 0 {
				s.pods += string(kind)
			}
		}
		add(s)
	}
	for i := 0; i < len(out); i++ {
		before, after, _, _ := out[i].look()
		add(before, after)
		add(out[i].others()...)
	}
	return out
})

// TestInWhateverOrderPeopleHostsAndTheOperatorActADrainKeepsItsRules: the operator
// remembers nothing, so that each of these sites may be the first that it sees, and
// each of its writes may be lost.
func TestInWhateverOrderPeopleHostsAndTheOperatorActADrainKeepsItsRules(t *testing.T) {
	for _, s := range everySite() {
		_, after, evicted, wrote := s.look()
		wish := s.annotations[drain.Desired]
		empties := drain.Empties(wish) || s.annotations[drain.Wanted] != ""
		told := func(s site) bool {
			return (!drain.Empties(wish) || drain.Emptied(s.annotations, wish)) && (s.annotations[drain.Wanted] == "" || drain.HasWanted(s.annotations))
		}
		must := func(holds bool, rule string) {
			t.Helper()
			if !holds {
				t.Fatalf("%s\nbefore %+v\nafter  %+v, evicted %q", rule, s, after, evicted)
			}
		}
		must(evicted == "" || s.cordoned && empties && !told(s), "pods are evicted of a host that is cordoned and is to be empty")
		must(evicted == "" || s.away == 0, "no pod is evicted while nobody else is ready")
		must(!strings.ContainsAny(evicted, "nd"), "nobody's pods and those of the host are not evicted")
		must(!strings.Contains(evicted, "c") || !strings.ContainsAny(s.pods, "nhw"), "who is needed by others goes last")
		must(!s.persons || after.cordoned, "a person's cordon stays")
		must(wrote == nil || after.key() != s.key(), "what is written changes something")
		must(!empties || !s.cordoned || after.cordoned || s.away > time.Minute && !told(s), "nobody takes the cordon of a host away that is to be empty, unless nobody else has taken pods for a while")
		if empties && !told(s) && told(after) {
			must(wrote.Event == "NotDrained" && s.alone || wrote.Event == "Drained" && !strings.ContainsAny(s.pods, "whcn"), "a host is called empty when it is, or when no other takes its pods")
		}
	}
	if n := len(everySite()); n < 2000 {
		t.Errorf("only %d sites", n)
	}
}

// TestADrainComesToItsEnd lets the operator alone go on from every site.
func TestADrainComesToItsEnd(t *testing.T) {
	ends := map[string]int{}
	for _, start := range everySite() {
		s, looks := start, 0
		for ; looks < 10; looks++ {
			_, after, evicted, wrote := s.look()
			if s = after; wrote == nil && (evicted == "" || evicted == "h") {
				break
			}
		}
		wish, a := s.annotations[drain.Desired], s.annotations
		_, began := a[drain.Began]
		_, waits := a[drain.Waits]
		_, ours := a[drain.CordonedBy]
		bad := func(rule string) { t.Fatalf("%s\nfrom %+v\nto   %+v after %d looks", rule, start, s, looks) }
		switch {
		case looks == 10:
			bad("it goes on for ever")
		case drain.Empties(wish) && !drain.Emptied(a, wish) || a[drain.Wanted] != "" && !drain.HasWanted(a):
			ends["waits"]++
			if away := s.away > 0 && strings.ContainsAny(s.pods, "whcn"); !waits || !away && (!strings.ContainsAny(s.pods, "hn") || !began) {
				bad("a drain lasts as long as a pod is in the way, or nobody else is ready, and says who")
			}
			if s.away > time.Minute && s.cordoned && !s.persons && strings.ContainsAny(s.pods, "whc") {
				bad("a host takes pods while nobody else does")
			}
		case began || waits:
			bad("nothing of a drain is left after it")
		case drain.Empties(wish) || a[drain.Wanted] != "":
			ends["empty"]++
		case ours || wish != "" && s.cordoned != s.persons || a[drain.Had] != "":
			bad("a host that takes pods again has the cordon of a person, or none")
		default:
			ends["takes pods"]++
		}
	}
	for _, end := range []string{"waits", "empty", "takes pods"} {
		if ends[end] < 100 {
			t.Errorf("%s: %d", end, ends[end])
		}
	}
}
