package lab_test

import (
	"cmp"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	labnet "github.com/holdfast/holdfast/internal/lab"
)

// pods holds the fields of pods that these tests need.
type pods struct{ Items []pod }

type pod struct {
	Metadata struct{ Namespace, Name string }
	Spec     struct{ NodeName string }
}

// everyHostHasNames expects a name server on each host, and no unscheduled pod.
func (c cluster) everyHostHasNames(s shape) {
	c.Helper()
	var servers pods
	c.getJSON(&servers, "--namespace=kube-system", "get", "pods", "--selector=k8s-app=kube-dns")
	on := map[string]bool{}
	for _, p := range servers.Items {
		on[p.Spec.NodeName] = true
	}
	if len(on) != s.nodes || len(servers.Items) != s.nodes {
		c.Errorf("%d name servers on %d of %d hosts", len(servers.Items), len(on), s.nodes)
	}
	c.eventually(2*time.Minute, "every pod has a place", func() error {
		var all pods
		c.getJSON(&all, "get", "pods", "--all-namespaces", "--field-selector=status.phase=Pending")
		if len(all.Items) > 0 {
			return fmt.Errorf("%s/%s is Pending", all.Items[0].Metadata.Namespace, all.Items[0].Metadata.Name)
		}
		return nil
	})
}

// longestWithoutName is the longest time for which a pod may be without an
// answer, including one query and the pause after it, at the asker's own pace.
const longestWithoutName = 2500 * time.Millisecond

// pace is the longest time from one question to the next: curl gives up after a
// second, and pauses for a quarter of one. More than that is time in which the
// machine did not let the asker run, which says nothing of the name.
const pace = 1250 * time.Millisecond

// asks is the number of queries of each pod while a host is away. They take a
// minute, or four if nobody refuses the connection after a query.
const asks = 200

// everyCut has the power of each host cut in turn, not of the last one alone.
var everyCut = flag.Bool("every-cut", false, "cut the power of each host in turn while pods ask for names, not of the last host alone")

// namesOutliveAHost cuts the power of a worker, or of a control plane if there
// is no worker, while a pod on each host queries a name.
func (c cluster) namesOutliveAHost(s shape) {
	c.Helper()
	if s.nodes == 1 {
		return
	}
	manifest, err := filepath.Abs("testdata/ask.yaml")
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.kubectl("apply", "--server-side", "-f", manifest); err != nil {
		c.Fatal(err)
	}
	if _, err := c.kubectl("rollout", "status", "daemonset/asker", "--timeout=120s"); err != nil {
		c.Fatal(err)
	}
	var askers pods
	c.getJSON(&askers, "get", "pods", "--selector=app=asker")
	if s.vips {
		c.podsKnowTheCluster(askers.Items)
	}
	slices.SortFunc(askers.Items, func(a, b pod) int { return cmp.Compare(b.Spec.NodeName, a.Spec.NodeName) })
	for i, lost := range askers.Items { // worker-... comes before cp-...
		// Without its only control plane nobody can read what the pods saw.
		if i == 0 || *everyCut && s.name[0] > '1' {
			c.namesOutlive(lost.Spec.NodeName, askers.Items)
		}
	}
}

// namesOutlive cuts the power of a host and expects the askers on the others to
// have a name at all times.
func (c cluster) namesOutlive(lost string, askers []pod) {
	c.Helper()
	c.eventually(2*time.Minute, "the pod on each host has names", func() error { return c.allHaveNames(askers) })
	cut := time.Now()
	c.must("lab", "fault", "power-cut", lost, "--name", c.name)
	for _, p := range askers {
		if p.Spec.NodeName == lost {
			continue
		}
		c.eventually(6*time.Minute, "the pod on "+p.Spec.NodeName+" goes on asking", func() error {
			out, err := c.kubectl("logs", p.Metadata.Name, "--timestamps", "--since-time="+cut.UTC().Format(time.RFC3339))
			if err != nil {
				return err
			}
			n, longest, err := answers(out)
			if err != nil {
				return err
			}
			if n < asks {
				return fmt.Errorf("%d questions of %d", n, asks)
			}
			c.Logf("%s lost: the longest time without a name on %s is %s", lost, p.Spec.NodeName, longest)
			if longest > longestWithoutName {
				c.Errorf("the pod on %s had no answer for %s", p.Spec.NodeName, longest)
			}
			return nil
		})
	}
	c.must("lab", "fault", "clear", "--name", c.name)
	c.isWholeAgain()
}

// allHaveNames expects an answer to the last question of each asker: a host that
// was the one without power before is Ready some seconds before its name server.
func (c cluster) allHaveNames(askers []pod) error {
	c.Helper()
	for _, p := range askers {
		out, err := c.kubectl("logs", p.Metadata.Name, "--tail=1", "--since=5s")
		if err != nil {
			return err
		}
		if strings.Trim(strings.TrimSpace(out), "0.") == "" {
			return fmt.Errorf("the pod on %s has no names yet", p.Spec.NodeName)
		}
	}
	return nil
}

// podsKnowTheCluster makes the pod of each host query names that the site's
// name server denies, so often that a single query to that server would show.
func (c cluster) podsKnowTheCluster(askers []pod) {
	c.Helper()
	const times = 50
	for _, p := range askers {
		for _, name := range []string{"api-int", p.Spec.NodeName} {
			script := fmt.Sprintf(`n=0; while [ $n -lt %d ]; do n=$((n+1)); curl --silent --output /dev/null --max-time 2 --write-out '%%{time_namelookup}\n' http://%s.%s.%s.:1/; done`,
				times, name, c.name, labnet.BaseDomain)
			var out string
			// An exec ends with the virtual IP's move, which a busy machine may cause.
			c.eventually(time.Minute, "a command in the pod on "+p.Spec.NodeName, func() (err error) {
				out, err = c.kubectl("exec", p.Metadata.Name, "--", "/bin/dash", "-c", script+"; true")
				return err
			})
			known := 0
			for took := range strings.FieldsSeq(out) {
				if strings.Trim(took, "0.") != "" {
					known++
				}
			}
			if known != times {
				c.Errorf("the pod on %s knew %s %d times of %d", p.Spec.NodeName, name, known, times)
			}
		}
	}
}

// answers counts the queries in a log with times, and returns the longest time
// between two answers, at the pace of one that is not held up.
func answers(log string) (questions int, longest time.Duration, err error) {
	var before time.Time
	without := time.Duration(0)
	for line := range strings.Lines(log) {
		at, took, _ := strings.Cut(strings.TrimSpace(line), " ")
		when, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return 0, 0, err
		}
		questions++
		if !before.IsZero() {
			without += min(when.Sub(before), pace)
		}
		before, longest = when, max(longest, without)
		if strings.Trim(took, "0.") != "" {
			without = 0
		}
	}
	return questions, longest, nil
}

func TestTheLongestTimeWithoutAnAnswerIsThatBetweenTwoAnswers(t *testing.T) {
	const log = `2026-11-21T20:00:00.000000000Z 0.001200
2026-11-21T20:00:00.250000000Z 0.000000
2026-11-21T20:00:01.250000000Z 0.000000
2026-11-21T20:00:01.500000000Z 0.000900
2026-11-21T20:00:01.750000000Z 0.000900
2026-11-21T20:00:02.750000000Z 0.000000
`
	if n, longest, err := answers(log); err != nil || n != 6 || longest != 1500*time.Millisecond {
		t.Errorf("%d questions, %s, %v", n, longest, err)
	}
	// The asker itself was held up for eight seconds.
	const held = log + "2026-11-21T20:00:10.750000000Z 0.000900\n"
	if n, longest, err := answers(held); err != nil || n != 7 || longest != 1000*time.Millisecond+pace {
		t.Errorf("%d questions, %s, %v", n, longest, err)
	}
}
