package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/replace"
	authorities "github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// keyCluster simulates a cluster whose hosts load the requested keys after a
// while.
type keyCluster struct {
	wish  map[string]string
	nodes []state.Node
	// lag is the number of readings until the hosts load requested keys.
	lag   int
	looks int
	puts  []string
	wrote []string
	// failed is the error of the next write, and lost that of those that arrive.
	failed, lost error
	told         func(c *keyCluster)
	// take takes a backup of the site.
	take func(ctx context.Context) error
	// lock is the plan for control planes that is in force, joins the tokens of hosts that
	// are being installed.
	lock  map[string]string
	joins []joining.Token
	// unread is true while an API server cannot read one of these tokens.
	unread bool
}

func (c *keyCluster) ConfigMap(_ context.Context, _, name string) (map[string]string, error) {
	if name == replace.LockName {
		return maps.Clone(c.lock), nil
	}
	return maps.Clone(c.wish), nil
}

func (c *keyCluster) BootstrapTokens(context.Context) ([]joining.Token, error) {
	if c.unread && c.wish["keys"] == "2" { // the API server has no key for one of them
		return nil, errors.New("no matching key was found")
	}
	return c.joins, nil
}

func (c *keyCluster) SwapConfigMap(_ context.Context, namespace, name string, before, after map[string]string) error {
	if err := c.failed; err != nil {
		c.failed = nil
		return err
	}
	if !maps.Equal(c.wish, before) {
		return kube.ErrChanged
	}
	if at, err := time.Parse(time.RFC3339, after["at"]); err != nil || !at.Equal(time.Now().Truncate(time.Second)) {
		return fmt.Errorf("the wish says that it is of %q", after["at"])
	}
	c.wish, c.looks = after, 0
	c.puts = append(c.puts, namespace+"/"+name+" "+after["keys"]+" "+after["rewritten"])
	return c.lost
}

func (c *keyCluster) Nodes(context.Context) ([]state.Node, error) {
	if c.told != nil {
		c.told(c)
	}
	if c.looks++; c.looks > c.lag && c.wish != nil {
		for i := range c.nodes {
			if c.nodes[i].Ready && c.nodes[i].Annotations != nil {
				c.nodes[i].Annotations[state.AnnotationEncryption] = c.wish["keys"]
			}
		}
	}
	return slices.Clone(c.nodes), nil
}

func (c *keyCluster) rewrite(_ context.Context, kind string) (int, error) {
	c.wrote = append(c.wrote, kind+" by "+c.wish["keys"])
	return 7, nil
}

func encryptingNode(name, keys string) state.Node {
	n := state.Node{Name: name, Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}}
	if keys != "" {
		n.Annotations = map[string]string{
			state.AnnotationEncryption: keys, state.AnnotationTrust: state.FormatAnnotation(authorities.Reports{ControlPlanes: 2}),
		}
	}
	return n
}

func newKeyCluster() *keyCluster {
	return &keyCluster{lag: 3, nodes: []state.Node{
		backedUp(encryptingNode("cp-1", "1")), encryptingNode("cp-2", "1"),
		{Name: "worker-1", Ready: true, Labels: map[string]string{noderole.Claim: string(state.RoleWorker)}},
	}}
}

func (c *keyCluster) rotate(t *testing.T, timeout time.Duration) (keysReport, string, error) {
	t.Helper()
	var said bytes.Buffer
	r := keyRotation{cluster: c, rewrite: c.rewrite, out: &said, backup: backupFirst{take: c.take, out: &said}}
	report, err := r.run(t.Context(), timeout)
	return report, said.String(), err
}

var wholeRotation = []string{
	"kube-system/holdfast-encryption 1,2 0", "kube-system/holdfast-encryption 2,1 0",
	"kube-system/holdfast-encryption 2,1 2", "kube-system/holdfast-encryption 2 2",
}

func TestAKeyIsReplacedInFourSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeyCluster()
		report, said, err := c.rotate(t, time.Hour)
		if err != nil || !slices.Equal(report.Wanted, []int{2}) || report.Next != encryption.Done || report.Written != 14 {
			t.Fatalf("%+v %v", report, err)
		}
		if !slices.Equal(c.puts, wholeRotation) {
			t.Errorf("wished were %q", c.puts)
		}
		if want := []string{"secrets by 2,1", "proxies.config.openshift.io by 2,1"}; !slices.Equal(c.wrote, want) {
			t.Errorf("written were %q", c.wrote)
		}
		for _, words := range []string{"read key 2", "write with key 2", "14 objects", "key 1 is dropped"} {
			if strings.Count(said, words) != 1 {
				t.Errorf("it says %q %d times:\n%s", words, strings.Count(said, words), said)
			}
		}
	})
}

// Wherever a rotation is interrupted, the next run finishes that rotation and
// begins no other.
func TestAnInterruptedRotationGoesOn(t *testing.T) {
	for seconds := 1; seconds < 40; seconds++ {
		synctest.Test(t, func(t *testing.T) {
			c := newKeyCluster()
			_, _, err := c.rotate(t, time.Duration(seconds)*time.Second)
			if err == nil {
				return // the rotation was complete
			}
			if !strings.Contains(err.Error(), "run the command again") {
				t.Errorf("%d s: %v", seconds, err)
			}
			if c.wish["keys"] == "2" {
				return // the hosts finish it by themselves; the next test covers that
			}
			report, _, err := c.rotate(t, time.Hour)
			if err != nil || !slices.Equal(report.Wanted, []int{2}) {
				t.Errorf("%d s: %+v %v", seconds, report, err)
			}
			if got := slices.Compact(slices.Clone(c.puts)); !slices.Equal(got, wholeRotation) {
				t.Errorf("%d s: wished were %q", seconds, c.puts)
			}
		})
	}
}

func TestTheLastStepThatIsUnderWayIsFinishedAndNoRotationBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeyCluster()
		c.nodes[0], c.nodes[1] = encryptingNode("cp-1", "2"), encryptingNode("cp-2", "2,1")
		c.wish = map[string]string{"keys": "2", "rewritten": "2"}
		report, _, err := c.rotate(t, time.Hour)
		if err != nil || !slices.Equal(report.Wanted, []int{2}) || len(c.puts) > 0 {
			t.Errorf("%+v %v, wished were %q", report, err, c.puts)
		}
	})
}

func TestARotationIsRefusedWhereAControlPlaneCouldBeLeftBehind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*keyCluster)
		why    string
	}{
		"one is away":            {func(c *keyCluster) { c.nodes[1].Ready = false }, "cp-2 not ready"},
		"one does not say":       {func(c *keyCluster) { c.nodes[1].Annotations = nil }, "cp-2 does not report"},
		"one is being installed": {func(c *keyCluster) { c.nodes[2].Labels[noderole.Claim] = string(state.RoleMaster) }, "worker-1 does not report"},
		"one has no Node":        {func(c *keyCluster) { c.nodes = slices.Delete(c.nodes, 1, 2) }, "refused, nothing was changed: only 1 of 2 control planes have a Node"},
		"a third one comes":      {func(c *keyCluster) { c.lock = widens }, "refused, nothing was changed: the plan p1 of root brings cp-3 as the third control plane"},
		"one comes":              {func(c *keyCluster) { c.joins = joins("cp-3") }, "refused, nothing was changed: cp-3 is being installed"},
		"they differ":            {func(c *keyCluster) { c.nodes[1] = encryptingNode("cp-2", "3") }, "cp-2 key 3"},
	} {
		cluster := newKeyCluster()
		c.change(cluster)
		_, _, err := cluster.rotate(t, time.Hour)
		if err == nil || !strings.Contains(err.Error(), c.why) || len(cluster.puts) > 0 {
			t.Errorf("%s: %v, wished were %q", name, err, cluster.puts)
		}
	}
}

// A rotation waits for a host that goes away in the middle; nothing changes
// meanwhile.
func TestAHostThatGoesAwayInTheMiddleHoldsTheRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, looks, during := newKeyCluster(), 0, 0
		c.told = func(c *keyCluster) {
			if len(c.puts) == 0 {
				return
			}
			looks++
			c.nodes[1].Ready = looks > 100
			if !c.nodes[1].Ready {
				during = len(c.puts)
			}
		}
		report, said, err := c.rotate(t, time.Hour)
		if err != nil || !slices.Equal(report.Wanted, []int{2}) || during != 1 {
			t.Errorf("%+v %v, %d wishes while it was away\n%s", report, err, during, said)
		}
	})
}

// The Node of a host that is off goes away, or a host comes: it may have the keys of that moment.
func TestAHostWithoutANodeHoldsTheRotation(t *testing.T) {
	for what, change := range map[string]func(c *keyCluster, there bool){
		"its Node is deleted": func(c *keyCluster, there bool) {
			if c.nodes = c.nodes[:1]; there {
				c.nodes = append(c.nodes, encryptingNode("cp-2", c.wish["keys"]))
			}
		},
		"a plan": func(c *keyCluster, there bool) {
			if c.lock = widens; there {
				c.lock = nil
			}
		},
		"a bare machine": func(c *keyCluster, there bool) {
			if c.joins = joins("cp-3"); there {
				c.joins = nil
			}
		},
	} {
		for after := 1; after < len(wholeRotation); after++ {
			synctest.Test(t, func(t *testing.T) {
				c, looks := newKeyCluster(), 0
				c.told = func(c *keyCluster) {
					if len(c.puts) < after || looks > 100 {
						return
					}
					if looks++; len(c.puts) != after {
						t.Errorf("%s after %d wishes: %q", what, after, c.puts)
					}
					change(c, looks > 100)
				}
				report, said, err := c.rotate(t, time.Hour)
				if err != nil || !slices.Equal(report.Wanted, []int{2}) || looks != 101 {
					t.Errorf("%s after %d wishes: %+v %v, %d looks\n%s", what, after, report, err, looks, said)
				}
			})
		}
	}
}

// A host came with an older key, and wrote with it: the command mends that and begins no rotation.
func TestAKeyThatOneHostKeepsIsReadByAllAgainAndRewritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeyCluster()
		c.nodes[0], c.nodes[1] = encryptingNode("cp-1", "2"), encryptingNode("cp-2", "2,1 kept")
		c.wish, c.looks, c.unread = map[string]string{"keys": "2", "rewritten": "2"}, -1000, true
		s, err := readKeys(t.Context(), c)
		if step := encryption.Next(s.Seen, false); err != nil || !strings.Contains(step.Why, "cp-2 may have written with key 1") {
			t.Fatalf("%v %+v", err, step)
		}
		report, said, err := c.rotate(t, time.Hour)
		if err != nil || !slices.Equal(report.Wanted, []int{2}) || !slices.Equal(c.puts, wholeRotation[1:]) || len(c.wrote) != 2 {
			t.Errorf("%+v %v, wished were %q, written %q\n%s", report, err, c.puts, c.wrote, said)
		}
	})
}

func TestAnAPIThatIsAwayForAMomentEndsNoRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeyCluster()
		c.failed = errors.New("no answer")
		if _, _, err := c.rotate(t, time.Hour); err != nil || !slices.Equal(c.puts, wholeRotation) {
			t.Errorf("%v %q", err, c.puts)
		}
	})
}

func TestWritesWhoseAnswersAreLostMakeOneRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeyCluster()
		c.lost = errors.New("no answer")
		report, _, err := c.rotate(t, time.Hour)
		if err != nil || !slices.Equal(report.Wanted, []int{2}) || !slices.Equal(c.puts, wholeRotation) {
			t.Errorf("%+v %v, wished were %q", report, err, c.puts)
		}
	})
}

// TestARunThatIsOvertakenTurnsNoKeyBack: while it rewrites, others complete this rotation
// and the next one.
func TestARunThatIsOvertakenTurnsNoKeyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, held := newKeyCluster(), false
		r := keyRotation{cluster: c, out: io.Discard, rewrite: func(ctx context.Context, kind string) (int, error) {
			for i := 0; i < 2 && !held; i++ {
				if _, _, err := c.rotate(t, time.Hour); err != nil { //nolint:contextcheck // a run of somebody else
					t.Error(err)
				}
			}
			held = true
			return c.rewrite(ctx, kind)
		}}
		report, err := r.run(t.Context(), time.Hour)
		next := []string{
			"kube-system/holdfast-encryption 2,3 2", "kube-system/holdfast-encryption 3,2 2",
			"kube-system/holdfast-encryption 3,2 3", "kube-system/holdfast-encryption 3 3",
		}
		if err != nil || !slices.Equal(report.Wanted, []int{3}) || !slices.Equal(c.puts, slices.Concat(wholeRotation, next)) {
			t.Errorf("%+v %v, wished were %q", report, err, c.puts)
		}
	})
}

// TestTwoRunsThatBeginTogetherMakeOneRotation, also if one of them only sees its end.
func TestTwoRunsThatBeginTogetherMakeOneRotation(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c, readings := newKeyCluster(), 0
			c.told = func(c *keyCluster) {
				if readings++; readings == 2 { // the other one has decided to begin
					_, _, _ = c.rotate(t, timeout)
				}
			}
			report, _, err := c.rotate(t, time.Hour)
			if err != nil || !slices.Equal(report.Wanted, []int{2}) || !slices.Equal(c.puts, wholeRotation) {
				t.Errorf("%s: %+v %v, wished were %q", timeout, report, err, c.puts)
			}
		})
	}
}

func TestTheStateOfKeysIsShown(t *testing.T) {
	s, err := readKeys(t.Context(), newKeyCluster())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := reportOf(s.Seen, encryption.Next(s.Seen, false)).print(&out, "text"); err != nil {
		t.Fatal(err)
	}
	if want := "wanted  1\ncp-1    1  ready\ncp-2    1  ready\nstate   all have key 1 and no other key\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
