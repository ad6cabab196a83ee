package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// upgradeSite returns a site of two control planes and a worker that run the first
// release, and who plays its operator and its agents.
func upgradeSite(t *testing.T) (client.WithWatch, player) {
	t.Helper()
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	v, nodes := upgradeObjects(t)
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&configv1.ClusterVersion{}).WithObjects(v)
	for _, n := range nodes {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		b = b.WithObjects(n)
	}
	c := b.Build()
	p := player{t, c}
	p.step()
	return c, p
}

func versionOf(t *testing.T, c client.Reader) *configv1.ClusterVersion {
	t.Helper()
	v := &configv1.ClusterVersion{}
	if err := c.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: annotation.VersionName}, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// wanted returns the release that the ClusterVersion wants.
func wantedRelease(t *testing.T, c client.Reader) string {
	t.Helper()
	if d := versionOf(t, c).Spec.DesiredUpdate; d != nil {
		return d.Image
	}
	return ""
}

func startOf(timeout time.Duration) startFlags {
	return startFlags{verbFlags: verbFlags{hostFlags: hostFlags{output: "text"}, timeout: timeout, yes: true}}
}

var toTwo = people.Start{Image: "sha256:2222222222222222222222222222222222222222222222222222222222222222"}

// exitOf returns the exit code of an error.
func exitOf(err error) int { return command.ExitCode(err) }

func TestAnUpgradeIsFollowedUntilAllHostsRunItAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := upgradeSite(t)
		var out bytes.Buffer
		stop := make(chan struct{})
		go func() { // the operator looks every three seconds, and never when the command does
			time.Sleep(500 * time.Millisecond)
			for {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Second):
					p.step()
				}
			}
		}()
		streams := Streams{In: strings.NewReader(""), Out: &out, Err: &out}
		out.WriteString("$ start\n")
		if err := startOf(time.Hour).run(t.Context(), c, streams, toTwo); err != nil {
			t.Fatal(err)
		}
		out.WriteString("$ rollback\n")
		if err := startOf(time.Hour).rollback(t.Context(), c, streams); err != nil {
			t.Fatal(err)
		}
		out.WriteString("$ start, and commit\n")
		if err := startOf(time.Hour).run(t.Context(), c, streams, toTwo); err != nil {
			t.Fatal(err)
		}
		if err := startOf(time.Hour).commit(t.Context(), c, streams); err != nil {
			t.Fatal(err)
		}
		close(stop)
		synctest.Wait()
		golden.Check(t, "upgrade-follow.txt", out.Bytes())
	})
}

func TestTheFollowingOfAnUpgradeEndsAndTheUpgradeDoesNot(t *testing.T) {
	for _, tt := range []struct {
		sentence string
		prepare  func(t *testing.T, c client.Client, p player)
		cancel   bool
		code     int
		says     string
	}{
		{"a person interrupts it", nil, true, command.ExitFailed, "interrupted: this command has ended, and the upgrade goes on. To see it: holdfast upgrade status; to go back: holdfast upgrade rollback"},
		{"its time is up", nil, false, command.ExitRecovers, "not done after 1m0s, and it goes on: "},
		{"somebody has paused it", func(t *testing.T, c client.Client, p player) {
			t.Helper()
			pauseUpgrade(t, c)
			p.until(cluster.Checked)
		}, false, command.ExitAttention, "Checked: paused: the shop is open"},
		{"the operator refuses it", func(t *testing.T, c client.Client, _ player) {
			t.Helper()
			v := versionOf(t, c)
			v.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: "ReleaseAccepted", Status: configv1.ConditionFalse, Message: "no such thing"}}
			if err := c.Status().Update(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}, false, command.ExitRefused, "holdfast-operator does not follow: no such thing"},
		{"somebody goes back", func(t *testing.T, c client.Client, p player) {
			t.Helper()
			p.until(cluster.Proving)
			if err := (verbFlags{yes: true, noWait: true}).rollback(t.Context(), c, silent()); err != nil {
				t.Fatal(err)
			}
			for !p.record().Returning {
				p.step()
			}
		}, false, command.ExitFailed, "somebody goes back"},
	} {
		t.Run(tt.sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := upgradeSite(t)
				f := startOf(time.Minute)
				f.noWait = true
				if err := f.run(t.Context(), c, silent(), toTwo); err != nil {
					t.Fatal(err)
				}
				if tt.prepare != nil {
					tt.prepare(t, c, p)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel {
					time.AfterFunc(10*time.Second, cancel)
				}
				before := wantedRelease(t, c)
				err := upgradeFollow{cluster: c, streams: silent(), timeout: time.Minute, digest: releaseTwo}.run(ctx)
				if exitOf(err) != tt.code || err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("exit code %d, %v", exitOf(err), err)
				}
				if wantedRelease(t, c) != before {
					t.Error("the wish has changed")
				}
			})
		})
	}
}

func silent() Streams {
	return Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
}

func pauseUpgrade(t *testing.T, c client.Client) {
	t.Helper()
	err := verbFlags{}.writes(t.Context(), c, silent(), func(u people.Upgrade) (people.Change, error) { return u.Pause("the shop is open") })
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsWrittenWithoutAYes(t *testing.T) {
	for answer, code := range map[string]int{"no\n": command.ExitNotConfirmed, "y\n": command.ExitNotConfirmed, "": command.ExitNotConfirmed, "yes\n": ExitOK} {
		c, _ := upgradeSite(t)
		var errs bytes.Buffer
		f := startOf(time.Minute)
		f.yes, f.noWait = false, true
		err := f.run(t.Context(), c, Streams{In: strings.NewReader(answer), Out: &errs, Err: &errs}, toTwo)
		if exitOf(err) != code || (wantedRelease(t, c) == "") != (code != ExitOK) || !strings.Contains(errs.String(), "  1. up-1\n  2. up-2\n  3. up-3\n") {
			t.Errorf("%q: %v, wants %q\n%s", answer, err, wantedRelease(t, c), &errs)
		}
	}
}

func TestADryRunOfAVerbWritesNothing(t *testing.T) {
	c, p := upgradeSite(t)
	f := startOf(time.Minute)
	f.dryRun = true
	before := versionOf(t, c).ResourceVersion
	if err := f.run(t.Context(), c, silent(), toTwo); err != nil || versionOf(t, c).ResourceVersion != before {
		t.Errorf("start: %v", err)
	}
	f.dryRun, f.noWait = false, true
	if err := f.run(t.Context(), c, silent(), toTwo); err != nil {
		t.Fatal(err)
	}
	p.until(cluster.Proving)
	before = versionOf(t, c).ResourceVersion
	dry := verbFlags{dryRun: true}
	pause := dry.writes(t.Context(), c, silent(), func(u people.Upgrade) (people.Change, error) { return u.Pause("why") })
	if err := errors.Join(dry.rollback(t.Context(), c, silent()), dry.commit(t.Context(), c, silent()), pause); err != nil || versionOf(t, c).ResourceVersion != before {
		t.Error(err)
	}
}

// TestAReleaseIsFetchedByAllHostsBeforeAnybodyWantsIt, and the command ends once it lies on all.
func TestAReleaseIsFetchedByAllHostsBeforeAnybodyWantsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := upgradeSite(t)
		lies := func(host string, whole ...string) {
			n := &corev1.Node{}
			if err := c.Get(p.ctx(), client.ObjectKey{Name: host}, n); err != nil {
				t.Error(err)
			}
			tell(t, n, func(h *annotation.Host) {
				h.Facts.Whole, h.FetchFailed = state.Known(whole), ""
				if len(whole) == 1 {
					h.FetchFailed = "/media/stick: not there"
				}
			})
			if err := c.Update(p.ctx(), n); err != nil {
				t.Error(err)
			}
		}
		last := upgradeHosts[2]
		lies(last, releaseOne)
		f := fetchFlags{verbFlags: verbFlags{hostFlags: hostFlags{output: "text"}, timeout: time.Minute}, sourceFlags: sourceFlags{folder: "/media/stick"}}
		if err := f.run(t.Context(), c, silent(), releaseTwo); exitOf(err) != command.ExitAttention || !strings.Contains(err.Error(), last+" lack it") {
			t.Fatal(err)
		}
		if a := versionOf(t, c).Annotations; a[annotation.OfferOf] != releaseTwo || a[annotation.SourcesOf] != `{"folder":"/media/stick"}` || wantedRelease(t, c) != "" {
			t.Errorf("%v", a)
		}
		go func() {
			time.Sleep(20 * time.Second)
			lies(last, releaseOne, releaseTwo)
		}()
		var out bytes.Buffer
		began := time.Now()
		if err := f.run(t.Context(), c, Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}, releaseTwo); err != nil || time.Since(began) < 20*time.Second {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		for _, says := range []string{"upgrade: Offered", "offered Holdfast 0.9.0", "holdfast upgrade start " + releaseTwo + " --dry-run"} {
			if !strings.Contains(out.String(), says) {
				t.Errorf("%q is missing in\n%s", says, out.String())
			}
		}
		if err := f.writes(t.Context(), c, silent(), people.Upgrade.Forget); err != nil || versionOf(t, c).Annotations[annotation.OfferOf] != "" {
			t.Errorf("%v, %v", err, versionOf(t, c).Annotations)
		}
	})
}

// TestAWriteOfTheOperatorInBetweenIsNoFailure, and one of a person is.
func TestAWriteOfTheOperatorInBetweenIsNoFailure(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "clusterversions"}, annotation.VersionName, errors.New("x"))
	for _, tt := range []struct {
		meanwhile func(v *configv1.ClusterVersion)
		code      int
		says      string
	}{
		{func(*configv1.ClusterVersion) {}, ExitOK, ""},
		{func(v *configv1.ClusterVersion) { v.Annotations = map[string]string{annotation.OverridesOf: "[]"} }, command.ExitRefused, "not what was shown any more"},
		{func(v *configv1.ClusterVersion) { v.Spec.DesiredUpdate = &configv1.Update{Image: releaseTwo} }, command.ExitRefused, "not what was shown any more"},
	} {
		c, _ := upgradeSite(t)
		tries := 0
		meanwhile := func() {
			v := versionOf(t, c)
			tt.meanwhile(v)
			if err := c.Update(t.Context(), v); err != nil {
				t.Error(err)
			}
		}
		busy := interceptor.NewClient(c, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if tries++; tries < 3 {
				meanwhile()
				return conflict
			}
			return c.Patch(ctx, o, patch, opts...)
		}})
		f := startOf(time.Minute)
		f.noWait = true
		err := f.run(t.Context(), busy, silent(), toTwo)
		if exitOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) || err == nil && wantedRelease(t, c) != releaseTwo {
			t.Errorf("%v, wants %s", err, wantedRelease(t, c))
		}
	}
}

func TestEveryMistakeOfAStartIsToldAtOnce(t *testing.T) {
	code, _, errs := runLine(t, "upgrade", "start", "0.9.0", "--soak", "soon", "--from-registry", "https://r.example/a:1", "--from-folder", "stick", "--skip", "fencing=x", "--skip", "backup", "--timeout", "-1s", "--kubeconfig", "/none")
	if code != ExitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, says := range []string{
		`"0.9.0": a release is named by its digest`, `--soak "soon": must be a time`, "--from-registry and --from-folder: cannot be combined", `--from-registry "https://r.example/a:1": must be`, `--from-folder "stick": must be`,
		"--skip fencing: nobody can skip this gate", `--skip "backup": must be GATE=REASON`, "--timeout -1s: must be positive",
	} {
		if !strings.Contains(errs, says) {
			t.Errorf("%q is not told: %s", says, errs)
		}
	}
	for _, line := range [][]string{{"fetch"}, {"fetch", "x"}, {"fetch", releaseTwo, "--forget"}, {"fetch", "--forget", "--from-folder", "/x"}, {"fetch", releaseTwo, "--from-folder", "x"}, {"check", "x"}, {"pause", "  "}, {"rollback", "--timeout", "0s"}, {"commit", "--timeout", "0s"}, {"status", "--interval", "1ms"}, {"resume", "x"}, {"status", "-o", "xml"}} {
		if code, _, errs := runLine(t, append(append([]string{"upgrade"}, line...), "--kubeconfig", "/none")...); code != ExitUsage {
			t.Errorf("%v: exit code %d, %s", line, code, errs)
		}
	}
}

func TestTheExitCodeOfACheckIsThatOfTheWorstGate(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(h *annotation.Host)
		code   int
	}{
		"something is not known":  {func(*annotation.Host) {}, command.ExitUnknown},
		"a person has to act":     {func(h *annotation.Host) { h.Facts.Edited = state.Known([]string{"/usr/local/bin/kubelet"}) }, command.ExitPerson},
		"another release is here": {func(h *annotation.Host) { h.Facts.Release = state.Known("sha256:9") }, command.ExitPerson},
	} {
		c, _ := upgradeSite(t)
		writesNode(t, c, "up-2", func(n *corev1.Node) { tell(t, n, tt.change) })
		before := versionOf(t, c).ResourceVersion
		var out bytes.Buffer
		v := versionOf(t, c)
		v.Generation++ // what the operator said is of before
		if err := c.Update(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if before == versionOf(t, c).ResourceVersion {
			t.Fatal("nothing was written")
		}
		if err := checkUpgrade(t.Context(), c, &out, "text", ""); exitOf(err) != tt.code {
			t.Errorf("%s: exit code %d\n%s", what, exitOf(err), &out)
		}
	}
}

func TestTheExitCodeOfAStatusSaysWhetherSomethingHoldsIt(t *testing.T) {
	c, p := upgradeSite(t)
	code := func(want int) {
		t.Helper()
		var out bytes.Buffer
		if err := showUpgrade(t.Context(), c, &out, "text"); exitOf(err) != want {
			t.Errorf("exit code %d, want %d\n%s", exitOf(err), want, &out)
		}
	}
	code(ExitOK)
	f := startOf(time.Minute)
	f.noWait = true
	if err := f.run(t.Context(), c, silent(), toTwo); err != nil {
		t.Fatal(err)
	}
	for len(p.record().Turns) == 0 {
		p.step()
	}
	code(command.ExitRecovers)
	writesNode(t, c, "up-2", func(n *corev1.Node) {
		tell(t, n, func(h *annotation.Host) {
			h.Journal, h.Held = parachute.Journal{Upgrade: "upgrade-1", Step: parachute.Proving}, "waits for a person"
		})
	})
	p.until(cluster.Hosts)
	code(command.ExitAttention)
	writesNode(t, c, "up-2", func(n *corev1.Node) {
		tell(t, n, func(h *annotation.Host) { h.Journal, h.Held = parachute.Journal{}, "" })
	})
	p.until(cluster.Proving)
	code(ExitOK)
	p.write(cluster.Record{})
	var m corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &m); err != nil {
		t.Fatal(err)
	}
	m.Data[annotation.RecordKey] = `{"format":2}`
	if err := c.Update(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	code(command.ExitUnknown)
}

func TestAnExplanationSaysWhatIsInTheWayOfAnUpgrade(t *testing.T) {
	c, p := upgradeSite(t)
	var out bytes.Buffer
	explain := func(want int) {
		t.Helper()
		if err := explainUpgrade(t.Context(), c, &out, "text"); exitOf(err) != want {
			t.Errorf("exit code %d, want %d\n%s", exitOf(err), want, &out)
		}
		out.WriteString("\n")
	}
	explain(ExitOK)
	f := startOf(time.Minute)
	f.noWait = true
	if err := f.run(t.Context(), c, silent(), toTwo); err != nil {
		t.Fatal(err)
	}
	pauseUpgrade(t, c)
	p.until(cluster.Checked)
	explain(ExitOK) // a person has paused it, and knows
	writesNode(t, c, "up-2", func(n *corev1.Node) {
		tell(t, n, func(h *annotation.Host) {
			h.Journal = parachute.Journal{Upgrade: "upgrade-1", Step: parachute.Returned, Failed: true, Why: "not accepted; not shown: its router answers, if it has one (within 2m0s)"}
		})
	})
	explain(command.ExitAttention)
	golden.Check(t, "explain-upgrade.txt", out.Bytes())
}

func TestAWatchOfAnUpgradePrintsTheStateAndThenChanges(t *testing.T) {
	for _, format := range []string{"text", "json", "yaml"} {
		synctest.Test(t, func(t *testing.T) {
			c, p := upgradeSite(t)
			ctx, cancel := context.WithCancel(t.Context())
			away := interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if at := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); at > 19*time.Second && at < 21*time.Second {
					return errors.New("connection refused")
				}
				return c.Get(ctx, key, o, opts...)
			}})
			go func() {
				time.Sleep(5500 * time.Millisecond) // not when the command looks
				f := startOf(time.Minute)
				f.noWait = true
				if err := f.run(ctx, c, silent(), toTwo); err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Second)
				p.until(cluster.Proving) //nolint:contextcheck // who plays the operator goes on
				time.Sleep(30 * time.Second)
				cancel()
			}()
			var out bytes.Buffer
			if err := watchUpgrade(ctx, away, &out, format, 2*time.Second); err != nil {
				t.Error(err)
			}
			if format == "text" {
				golden.Check(t, "upgrade-watch.txt", out.Bytes())
			} else if n := strings.Count(out.String(), releaseTwo); n == 0 || !strings.Contains(out.String(), "Proving") {
				t.Errorf("%s: %s", format, &out)
			}
		})
	}
}

func TestDigestsOnHostsAndGatesThatMayBeSkippedAreCompleted(t *testing.T) {
	c, _ := upgradeSite(t)
	u, err := gatherUpgrade(t.Context(), c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{releaseOne + "\tHoldfast 0.8.0 (sha256:111111111111)", releaseTwo + "\tHoldfast 0.9.0 (sha256:222222222222)"}
	if got := digestCompletions(u); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	code, out, _ := runLine(t, "__complete", "upgrade", "start", "x", "--skip", "")
	if code != ExitOK || !strings.HasPrefix(out, "refused-objects=\n") || !strings.Contains(out, "backup=\n") || strings.Contains(out, "fencing") || strings.Contains(out, "workers") {
		t.Errorf("%d: %s", code, out)
	}
}

func TestWithoutAClusterVersionNothingIsWantedAndNothingFails(t *testing.T) {
	c, _ := upgradeSite(t)
	if err := c.Delete(t.Context(), versionOf(t, c)); err != nil {
		t.Fatal(err)
	}
	if err := startOf(time.Minute).run(t.Context(), c, silent(), toTwo); exitOf(err) != command.ExitUnknown || !strings.Contains(err.Error(), "no ClusterVersion") {
		t.Error(err)
	}
	if err := showUpgrade(t.Context(), c, &bytes.Buffer{}, "text"); err != nil {
		t.Error(err)
	}
}
