package standing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	etcdv1 "github.com/openshift/api/etcd/v1"
)

// findingsOf writes all of each finding, also what only programs read.
func findingsOf(list []finding.Finding) string {
	var out strings.Builder
	for _, f := range list {
		fmt.Fprintf(&out, "  %s %s, of %q, told apart by %q, page %s\n    %s\n    %s\n", f.Severity, f.ID, f.Subject, f.Variant, f.Page, f.Problem, f.Meaning)
		for _, c := range f.Commands {
			fmt.Fprintf(&out, "    on %q: %s\n", c.Host, c.Line)
		}
	}
	return out.String()
}

// judged writes what a view says of redundancy, and its findings.
func judged(v View) string {
	out := fmt.Sprintf("  %s; survives: %s; %s\n", v.Status, v.Redundancy.Survives, v.Redundancy.Sentence)
	for _, l := range v.Redundancy.Losses {
		out += fmt.Sprintf("  without %s: %s %s\n", l.Host, l.Survives, l.Because)
	}
	return out + findingsOf(v.Findings)
}

// lists returns all lists of conditions in Pacemaker's report, each with the name of
// what they are about: the cluster, and one host with its resources.
func lists(f *Facts) map[string]*[]metav1.Condition {
	out := map[string]*[]metav1.Condition{"the cluster": &f.Pacemaker.Value.Conditions}
	node := &(*f.Pacemaker.Value.Nodes)[1]
	out[node.NodeName] = &node.Conditions
	for i := range node.Resources {
		out[fmt.Sprintf("%s on %s", node.Resources[i].Name, node.NodeName)] = &node.Resources[i].Conditions
	}
	return out
}

// TestEachConditionThatDoesNotHoldIsSaidAsApproved makes one condition of a healthy
// pair at a time false, unknown and absent.
func TestEachConditionThatDoesNotHoldIsSaidAsApproved(t *testing.T) {
	var out strings.Builder
	var harmless []string
	healthy := recorded(t, "healthy", etcdReport(t, "healthy"))
	usual := judged(Describe(healthy))
	names := lists(&healthy)
	for _, of := range slices.Sorted(keys(names)) {
		for i, c := range *names[of] {
			for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, ""} {
				f := recorded(t, "healthy", etcdReport(t, "healthy"))
				f.Pacemaker.Value = *f.Pacemaker.Value.DeepCopy()
				list := lists(&f)[of]
				word := string(status)
				if status == "" {
					*list, word = slices.Delete(*list, i, i+1), "absent"
				} else {
					(*list)[i].Status, (*list)[i].Reason, (*list)[i].Message = status, "Because", "the message"
				}
				if said := judged(Describe(f)); said != usual {
					fmt.Fprintf(&out, "%s of %s is %s\n%s\n", c.Type, of, word, said)
					continue
				}
				harmless = append(harmless, fmt.Sprintf("%s of %s is %s\n", c.Type, of, word))
			}
		}
	}
	golden.Check(t, "conditions.txt", []byte(out.String()+"Nothing is said where\n"+strings.Join(harmless, "")))
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// explained returns a host's explanation of a status.
func explained(s explain.Status, service explain.Service, next ...explain.Advice) Seen[explain.Explanation] {
	return Know(explain.Explanation{Status: s, Service: service, Rule: "a-rule", Summary: "the summary", Reason: "the reason", Next: next}, "cp-1", now)
}

type pacemakerReport = etcdv1.PacemakerClusterStatus

// changes holds what may be wrong with a site beside Pacemaker's conditions: each
// one is made to a pair that is whole.
func changes() map[string]func(*Facts) {
	api2 := Source{Kind: FromAPI, Name: "API at https://10.98.0.11:6443", Failed: "connection refused"}
	failed := func(f *Facts) { f.Sources[0].Failed = "no answer within 1.5s" }
	return map[string]func(*Facts){
		"a host waits":      func(f *Facts) { f.Hosts[0].Explanation = explained(explain.Waiting, explain.Writes) },
		"a host is stopped": func(f *Facts) { f.Hosts[0].Explanation = explained(explain.Stopped, explain.Writes) },
		"a host needs a person, and says nothing": func(f *Facts) { f.Hosts[0].Explanation = explained(explain.NeedsHuman, explain.Writes) },
		"a host needs a person, who first does": func(f *Facts) {
			f.Hosts[0].Explanation = explained(explain.NeedsHuman, explain.Writes, explain.Advice{Does: "look at the host"}, explain.Advice{Does: "says so", Command: "holdfast quorum confirm"})
		},
		"a host needs a person, who types": func(f *Facts) {
			f.Hosts[0].Explanation = explained(explain.NeedsHuman, explain.Writes, explain.Advice{Does: "starts it", Command: "systemctl start pacemaker"}, explain.Advice{Does: "look at the host"})
		},
		"a host needs a person without an API": func(f *Facts) {
			failed(f)
			f.Hosts[0].Explanation = explained(explain.NeedsHuman, explain.ReadsOnly)
		},
		"an explanation that is not known": func(f *Facts) {
			f.Hosts[0].Explanation = explained(explain.NeedsHuman, explain.ReadsOnly)
			f.Hosts[0].Explanation.Known = false
		},
		"a step of etcd fails": func(f *Facts) {
			f.Hosts[1].Explanation = explained(explain.Healthy, explain.Writes)
			f.Hosts[1].Explanation.Value.Problems = []string{"start etcd: no space left"}
		},
		"network":                   func(f *Facts) { f.Hosts[1].Trouble = Know("keepalived does not run", "cp-2", now) },
		"no trouble of the network": func(f *Facts) { f.Hosts[1].Trouble = Know("", "cp-2", now) },
		"a trouble that is not known": func(f *Facts) {
			f.Hosts[1].Trouble = Know("keepalived does not run", "cp-2", now)
			f.Hosts[1].Trouble.Known = false
		},
		"a kubelet that is not ready": func(f *Facts) { f.Hosts[1].Kubelet = notReady("") },
		"a kubelet that was cordoned": func(f *Facts) { f.Hosts[1].Kubelet.Value.Cordoned = true },
		"a kubelet whose pods move":   func(f *Facts) { k := &f.Hosts[1].Kubelet.Value; k.Cordoned, k.Moves = true, true },
		"a configuration that is not known": func(f *Facts) {
			f.Hosts[1].Config = Seen[rollout.Host]{Value: rollout.Host{Name: "cp-2", Desired: "rendered-master-2", State: rollout.Degraded}}
		},
		"a host has begun its way a moment ago": func(f *Facts) {
			f.Hosts[1].Config = configured(rollout.Host{Name: "cp-2", Desired: "rendered-master-2", State: rollout.Working, Reason: "boots"})
			f.Hosts[1].Config.Value.Ready = false
		},
		"a kubelet that is not known": func(f *Facts) {
			f.Hosts[1].Kubelet = Seen[Kubelet]{Value: Kubelet{Cordoned: true}}
		},
		"loops fail": func(f *Facts) {
			f.Hosts[0].Loops = Know([]state.Loop{
				{Name: "later", Error: "x", FailingSince: now.Add(-2 * time.Minute)},
				{Name: "first", Error: "y", FailingSince: now.Add(-5 * time.Minute)},
				{Name: "for a minute", Error: "z", FailingSince: now.Add(-time.Minute)},
				{Name: "well", Since: now.Add(-time.Hour), FailingSince: now.Add(-time.Hour)},
			}, "cp-1", now)
		},
		"five operators are ill": func(f *Facts) {
			for _, n := range []string{"a", "b", "c", "d", "e"} {
				f.Operators.Value = append(f.Operators.Value, Operator{Name: n, State: "degraded", Why: "it is"})
			}
		},
		"two are not set up":               func(f *Facts) { f.SetUp.Value = SetUp{Doing: "step 2 of 5"} },
		"one way to the API of two fails":  func(f *Facts) { f.Sources = append(f.Sources, api2) },
		"both ways to the API fail":        func(f *Facts) { failed(f); f.Sources = append(f.Sources, api2) },
		"the API fails and a host answers": func(f *Facts) { failed(f); f.Sources = append(f.Sources, onCP1) },
		"a host and the lab do not answer": func(f *Facts) {
			f.Sources = append(f.Sources, Source{Kind: FromHost, Name: "cp-2", Failed: "no route"}, Source{Kind: FromLab, Name: "lab pcm", Failed: "no such lab"})
		},
		"no VIP of two has a holder": func(f *Facts) {
			f.VIPs[0].Holders.Value, f.VIPs[1].Holders = nil, Seen[[]string]{Why: "cp-2 was not heard"}
		},
		"no holder without writes": func(f *Facts) {
			failed(f)
			f.Hosts[0].Explanation, f.VIPs[0].Holders.Value = explained(explain.Waiting, explain.ReadsOnly), nil
		},
		"two holders":    func(f *Facts) { f.VIPs[0].Holders.Value = []string{"cp-2", "cp-1"} },
		"a foreign host": func(f *Facts) { f.VIPs[0].Claims = []string{"02:00:00:00:00:63", "02:00:00:00:00:64"} },
		"a VIP left":     func(f *Facts) { f.VIPs[1].Left = []string{"cp-2"} },
		"forged adverts": func(f *Facts) { f.VIPs[1].Forged = []string{"02:00:00:00:00:63 in the name of 10.98.0.12"} },
		"a firewall": func(f *Facts) {
			f.Hosts[1].Firewalls = Know([]state.SiteFirewall{{Name: "ufw", Pods: []string{"10.128.0.0/14"}}}, "cp-2", now)
		},
		"a Node deleted":  func(f *Facts) { f.Nodes.Value = f.Nodes.Value[:1] },
		"labels deleted":  func(f *Facts) { f.Hosts[1].Labels.Value = map[string]string{"holdfast.io/role": "master"} },
		"a peer missing":  func(f *Facts) { f.Hosts[0].Peers.Value = state.PeerReport{} },
		"a Node unlisted": func(f *Facts) { f.Nodes.Value, f.Hosts = f.Nodes.Value[:1], f.Hosts[:1] },
		"objects deleted": func(f *Facts) {
			for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
				f.Missing.Value = append(f.Missing.Value, Object{"ConfigMap", "kube-system", n})
			}
		},
		"an object without a namespace deleted": func(f *Facts) { f.Missing.Value = []Object{{"ClusterRole", "", "holdfast-hosts"}} },
		"objects that are not known": func(f *Facts) {
			f.Missing = Seen[[]Object]{Value: []Object{{"ClusterRole", "", "holdfast-hosts"}}}
		},
		"a report that is nearly old": func(f *Facts) { f.Pacemaker.At = now.Add(-fresh) },
		"a report that is old":        func(f *Facts) { f.Pacemaker.At = now.Add(-fresh - time.Second) },
		"a report at the limit":       func(f *Facts) { f.Pacemaker.At = now.Add(-tooOld) },
		"a report that is too old":    func(f *Facts) { f.Pacemaker.At = now.Add(-tooOld - time.Second) },
		"no report":                   func(f *Facts) { f.Pacemaker = Seen[pacemakerReport]{} },
		"a report without hosts":      func(f *Facts) { f.Pacemaker.Value.Nodes = nil },
		"a report of one host":        func(f *Facts) { *f.Pacemaker.Value.Nodes = (*f.Pacemaker.Value.Nodes)[:1] },
		"two members, no report of Pacemaker": func(f *Facts) {
			f.Pacemaker = Seen[pacemakerReport]{}
			f.Hosts[0].Member = Know(Member{Listed: state.Known(false)}, "cp-1", now)
			f.Hosts[1].Member = Know(Member{Running: state.Known(true), Learner: true}, "cp-1", now)
		},
		"two members that do not serve, no report of Pacemaker": func(f *Facts) {
			f.Pacemaker = Seen[pacemakerReport]{}
			f.Hosts[0].Member = Know(Member{Running: state.Known(false)}, "cp-1", now)
			f.Hosts[1].Member = Seen[Member]{Value: Member{Learner: true}}
		},
	}
}

// TestWhatMayBeWrongWithASiteIsSaidAsApproved changes one fact of a pair that is
// whole at a time.
func TestWhatMayBeWrongWithASiteIsSaidAsApproved(t *testing.T) {
	var out strings.Builder
	all := changes()
	for _, name := range slices.Sorted(keys(all)) {
		f := whole(t)
		f.Pacemaker.Value = *f.Pacemaker.Value.DeepCopy()
		all[name](&f)
		v := Describe(f)
		fmt.Fprintf(&out, "%s: %s\n%s\n", name, v.Summary, judged(v))
	}
	golden.Check(t, "changes.txt", []byte(out.String()))
}
