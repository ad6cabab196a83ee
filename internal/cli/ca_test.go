package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/rotation"
)

func TestAnAuthorityIsReplacedOneHostAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		out, said, err := c.rotate(decide.FrontProxyCA, "", nil)
		if err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Fatalf("%v %q\n%s", err, c.phases, said)
		}
		if c.published != c.fresh.Block {
			t.Error("the API still publishes the old CA")
		}
		if !strings.Contains(out, "front-proxy-ca: all have the same authority and no other one") {
			t.Errorf("it shows:\n%s", out)
		}
	})
}

// The first run ends until no pod uses an old token, the second one drops the key,
// unless a Secret holds such a token.
func TestAKeyOfTokensIsDroppedWhenNobodyUsesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.tokens = []kube.TokenSecret{{Namespace: "shop", Name: "robot", Key: c.old.ID}, {Namespace: "shop", Name: "new", Key: c.fresh.ID}}
		_, _, err := c.rotate(decide.ServiceAccountKey, "", nil)
		if codeOf(err) != command.ExitAttention || !strings.Contains(err.Error(), "run the command again then") {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if _, _, err := c.rotate(decide.ServiceAccountKey, "", nil); codeOf(err) != command.ExitAttention {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, _, err = c.rotate(decide.ServiceAccountKey, "", nil)
		if codeOf(err) != command.ExitAttention || !strings.Contains(err.Error(), ": shop/robot.") {
			t.Fatal(err)
		}
		c.tokens = c.tokens[1:]
		if _, _, err := c.rotate(decide.ServiceAccountKey, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Errorf("%v %q", err, c.phases)
		}
	})
}

// A person names a longer life of tokens once: each later run, and `ca show`, know it.
func TestALifeOfTokensIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		run := func(life time.Duration) error {
			_, _, err := c.rotate(decide.ServiceAccountKey, "", func(f *rotateCAFlags) { f.tokenLife = life })
			return err
		}
		first := run(720 * time.Hour)
		if codeOf(first) != command.ExitAttention {
			t.Fatal(first)
		}
		time.Sleep(26 * time.Hour)
		if err := run(0); codeOf(err) != command.ExitAttention || err.Error() != first.Error() {
			t.Errorf("the next run: %v, want %v", err, first)
		}
		var out bytes.Buffer
		if err := showCA(t.Context(), c, &out, "text", time.Now()); codeOf(err) != command.ExitAttention || !strings.Contains(out.String(), first.Error()) {
			t.Errorf("%v\n%s\nwant %v", err, out.String(), first)
		}
		if err := run(48 * time.Hour); codeOf(err) != command.ExitAttention || err.Error() == first.Error() {
			t.Errorf("a shorter life that is named: %v", err)
		}
		time.Sleep(23 * time.Hour)
		if err := run(0); err != nil {
			t.Error(err)
		}
	})
}

// Wherever the command is interrupted, the next run finishes that rotation and
// begins no other.
func TestAnInterruptedRotationOfAnAuthorityGoesOn(t *testing.T) {
	for seconds := 1; seconds < 90; seconds += 2 {
		synctest.Test(t, func(t *testing.T) {
			c := newCASite(t)
			_, _, err := c.rotate(decide.FrontProxyCA, "", func(f *rotateCAFlags) { f.timeout = time.Duration(seconds) * time.Second })
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), "run the command again") {
				t.Errorf("%d s: %v", seconds, err)
			}
			if w, _ := decide.ParseWish(c.wish[string(decide.FrontProxyCA)]); !w.Running() {
				return // all but the last reading was done
			}
			if _, _, err = c.rotate(decide.FrontProxyCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
				t.Errorf("%d s: %v %q", seconds, err, c.phases)
			}
		})
	}
}

// Of two control planes both have to be there for etcd: before it begins, and before
// each further host and phase.
func TestEtcdsCAIsReplacedWhileEtcdCouldDoWithoutEitherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.pacemaker = nil
		if _, _, err := c.rotate(decide.EtcdCA, "", nil); codeOf(err) != command.ExitRefused || !strings.Contains(err.Error(), "Pacemaker's status says nothing of cp-1") {
			t.Fatal(err)
		}
		c.pacemaker = pairStatus(metav1.ConditionFalse)
		if _, _, err := c.rotate(decide.EtcdCA, "", nil); codeOf(err) != command.ExitRefused || !strings.Contains(err.Error(), "etcd could not do without cp-1 now: cp-2 is absent") {
			t.Fatal(err)
		}
		if len(c.phases) > 0 {
			t.Fatalf("it began: %q", c.phases)
		}
		c.pacemaker = pairStatus(metav1.ConditionTrue)
		if _, _, err := c.rotate(decide.EtcdCA, "", func(f *rotateCAFlags) { f.timeout = 8 * time.Second }); err == nil {
			t.Fatal("it is complete at once")
		}
		began := len(c.phases)
		c.pacemaker = pairStatus(metav1.ConditionFalse)
		if _, _, err := c.rotate(decide.EtcdCA, "", func(f *rotateCAFlags) { f.timeout = 10 * time.Minute }); err == nil || !strings.Contains(err.Error(), "cp-2 is absent") || len(c.phases) != began {
			t.Fatalf("%v %q", err, c.phases)
		}
		c.pacemaker = pairStatus(metav1.ConditionTrue)
		if _, _, err := c.rotate(decide.EtcdCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Errorf("%v %q", err, c.phases)
		}
	})
}

// The Kubernetes CA signs only after somebody has said that all others trust it, and
// after the time in which programs read it. It is gone from all that is published at
// the end.
func TestTheKubernetesCAIsReplacedOnControlPlanesAndThenOnWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		worker := c.has["worker-1"]
		delete(c.has, "worker-1")
		if _, _, err := c.rotate(decide.KubernetesCA, "", nil); codeOf(err) != command.ExitRefused || !strings.Contains(err.Error(), "worker-1 does not report its authorities") {
			t.Fatal(err)
		}
		c.has["worker-1"], c.publishes = worker, decide.KubernetesCA
		var out, said bytes.Buffer
		opened := 0
		r := caRotation{
			rotateCAFlags: rotateCAFlags{timeout: time.Hour, tokenLife: decide.TokenLife}, cluster: c, authority: decide.KubernetesCA,
			streams: Streams{In: &answers{"yes"}, Out: &out, Err: &said}, now: time.Now, random: rand.Reader,
			reopen: func(context.Context) (caCluster, error) { opened++; return c, nil },
		}
		began := time.Now()
		pod := func(namespace, name string) corev1.Pod {
			return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Now()}}
		}
		c.pods = []corev1.Pod{pod("kube-flannel", "b"), pod("shop", "x"), pod("kube-flannel", "a")}
		if err := r.run(t.Context()); codeOf(err) != command.ExitAttention ||
			!strings.Contains(err.Error(), "does not know the new one: kube-flannel/a, kube-flannel/b. Start it anew: kubectl -n kube-flannel rollout restart daemonset kube-flannel") {
			t.Fatal(err)
		}
		c.pods = []corev1.Pod{pod("kube-flannel", "c"), c.pods[1]}
		r.streams.In = &answers{"no"}
		if err := r.run(t.Context()); codeOf(err) != command.ExitNotConfirmed || len(c.phases) != 4 || time.Since(began) < 12*time.Minute {
			t.Fatalf("%v %q after %s", err, c.phases, time.Since(began))
		}
		if bundle, err := kube.Authorities([]byte(c.info)); err != nil || string(bundle) != c.old.Block+c.fresh.Block {
			t.Errorf("hosts that join trust %s, %v", bundle, err)
		}
		if opened < 4 {
			t.Errorf("the API was opened anew %d times", opened)
		}
		r.streams.In = &answers{"yes", "yes"}
		if err := r.run(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		want := []string{
			"trust cp-1", "trust cp-2", "trust worker-1", "trust worker-1", "sign cp-1", "sign cp-2", "sign worker-1", "sign worker-1",
			"drop cp-1", "drop cp-2", "drop worker-1", "done",
		}
		if !slices.Equal(c.phases, want) || time.Since(began) < 24*time.Minute {
			t.Errorf("%q after %s", c.phases, time.Since(began))
		}
		for _, words := range []string{"The authority kubernetes-ca is replaced on cp-1, cp-2, worker-1.", signsKubernetes, dropsKubernetes, "programs that follow their authority have read it by "} {
			if !strings.Contains(said.String(), words) {
				t.Errorf("it does not say %q:\n%s", words, said.String())
			}
		}
		if bundle, err := kube.Authorities([]byte(c.info)); err != nil || string(bundle) != c.fresh.Block || c.published != c.fresh.Block {
			t.Errorf("hosts that join trust %s, other servers %s, %v", bundle, c.published, err)
		}
	})
}

// What somebody wrote into a ConfigMap for pods holds the rotation, and is named.
func TestARotationWaitsForWhatPodsTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.publishes, c.edited = decide.KubernetesCA, newCASite(t).old.Block
		_, said, err := c.rotate(decide.KubernetesCA, "", nil)
		if err == nil || !strings.Contains(said, "1 ConfigMaps to go: shop/kube-root-ca.crt") || !slices.Equal(c.phases, []string{"trust cp-1", "trust cp-2", "trust worker-1"}) {
			t.Errorf("%v %q\n%s", err, c.phases, said)
		}
	})
}

// By the last question all hosts trust two authorities. Whoever is asked may have to do something
// first, which takes its time.
func TestAQuestionInTheMiddleOfARotationWaitsForItsAnswer(t *testing.T) {
	for answer, want := range map[string]string{
		"yes\n": "",
		"no\n":  "not confirmed; the rotation stands where it was: holdfast ca show; to go on: holdfast ca rotate front-proxy-ca",
		"":      "not confirmed; the rotation stands where it was: holdfast ca show; to go on: holdfast ca rotate front-proxy-ca",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCASite(t)
			ctx, interrupt := context.WithCancel(t.Context())
			answers, person := io.Pipe()
			go func() {
				_, _ = io.WriteString(person, "yes\n")
				time.Sleep(3 * time.Hour)
				if answer == "" {
					interrupt()
					return
				}
				_, _ = io.WriteString(person, answer)
			}()
			r := caRotation{
				rotateCAFlags: rotateCAFlags{timeout: time.Hour, tokenLife: decide.TokenLife}, cluster: c, authority: decide.FrontProxyCA,
				streams: Streams{In: answers, Out: io.Discard, Err: io.Discard}, now: time.Now, random: rand.Reader,
			}
			switch err := r.run(ctx); {
			case want == "":
				if err != nil || !slices.Equal(c.phases, wholeCA) {
					t.Errorf("%v %q", err, c.phases)
				}
			case codeOf(err) != command.ExitNotConfirmed || err.Error() != want || len(c.phases) != 5:
				t.Errorf("%q: %v after %q", answer, err, c.phases)
			}
			interrupt()
			_ = person.Close()
		})
	}
}

func TestAWriteWhoseAnswerIsLostBeginsNoSecondRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.lost = errors.New("connection reset")
		if _, _, err := c.rotate(decide.FrontProxyCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Errorf("%v %q", err, c.phases)
		}
	})
}

// While the administrator is asked, another run replaces the authority from begin to end:
// this run begins no second rotation.
func TestARotationThatAnotherRunCompletesIsNotBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		r := caRotation{
			rotateCAFlags: rotateCAFlags{timeout: time.Hour, tokenLife: decide.TokenLife}, cluster: c, authority: decide.FrontProxyCA,
			streams: Streams{In: slowAnswer(func() {
				if _, _, err := c.rotate(decide.FrontProxyCA, "", nil); err != nil {
					t.Error(err)
				}
			}), Out: io.Discard, Err: io.Discard}, now: time.Now, random: rand.Reader,
		}
		if err := r.run(t.Context()); err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Errorf("%v %q", err, c.phases)
		}
	})
}

func TestARotationOfAnAuthorityIsRefusedOrAskedFor(t *testing.T) {
	for what, c := range map[string]struct {
		answers string
		change  func(*caSite, *rotateCAFlags)
		code    int
		want    string
		phases  int
	}{
		"one is away":          {"", func(c *caSite, _ *rotateCAFlags) { c.nodes[1].Ready = false }, command.ExitRefused, "refused, nothing was changed: cp-2 not ready", 0},
		"one does not report":  {"", func(c *caSite, _ *rotateCAFlags) { delete(c.has, "cp-2") }, command.ExitRefused, "cp-2 does not report its authorities", 0},
		"a third one comes":    {"", func(c *caSite, _ *rotateCAFlags) { c.lock = widens }, command.ExitRefused, "refused, nothing was changed: the plan p1 of root brings cp-3 as the third control plane; to follow it, on cp-1: ", 0},
		"one is installed":     {"", func(c *caSite, _ *rotateCAFlags) { c.joins = joins("cp-3") }, command.ExitRefused, "refused, nothing was changed: cp-3 is being installed", 0},
		"no":                   {"no\n", func(*caSite, *rotateCAFlags) {}, command.ExitNotConfirmed, "not confirmed", 0},
		"no answer":            {" ", func(*caSite, *rotateCAFlags) {}, command.ExitNotConfirmed, "not confirmed", 0},
		"no to the last phase": {"yes\nno\n", func(*caSite, *rotateCAFlags) {}, command.ExitNotConfirmed, "the rotation stands where it was", 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newCASite(t)
			_, _, err := s.rotate(decide.FrontProxyCA, c.answers, func(f *rotateCAFlags) { c.change(s, f) })
			if codeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || len(s.phases) != c.phases {
				t.Errorf("%s: %v after %q", what, err, s.phases)
			}
		})
	}
}

// A host that comes in the middle of a rotation gets the authorities of that moment: no
// further step is taken until it is complete.
func TestARotationWaitsForAHostThatComes(t *testing.T) {
	for what, comes := range map[string]func(*caSite){
		"a plan":         func(c *caSite) { c.lock = widens },
		"a bare machine": func(c *caSite) { c.joins = joins("cp-3") },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCASite(t)
			if _, _, err := c.rotate(decide.EtcdCA, "", func(f *rotateCAFlags) { f.timeout = 8 * time.Second }); err == nil {
				t.Fatal("it is complete at once")
			}
			began := len(c.phases)
			comes(c)
			if _, said, err := c.rotate(decide.EtcdCA, "", func(f *rotateCAFlags) { f.timeout = 10 * time.Minute }); err == nil || !strings.Contains(said, "cp-3") || len(c.phases) != began {
				t.Fatalf("%s: %v %q\n%s", what, err, c.phases, said)
			}
			c.lock, c.joins = nil, nil
			if _, _, err := c.rotate(decide.EtcdCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
				t.Errorf("%s: %v %q", what, err, c.phases)
			}
		})
	}
}

// The command does not go on with a wish from an older copy of etcd: it begins a new rotation,
// and `ca show` asks for one.
func TestAWishFromBeforeTheLastRotationIsReplaced(t *testing.T) {
	for _, phase := range []decide.Phase{decide.Done, decide.Sign} {
		synctest.Test(t, func(t *testing.T) {
			c := newCASite(t)
			old := decide.Wish{Phase: phase, Salt: make([]byte, 32), Began: time.Now()}
			c.wish[string(decide.FrontProxyCA)], c.restored = []byte(old.String()), old.Name()
			var out bytes.Buffer
			if err := showCA(t.Context(), c, &out, "text", time.Now()); codeOf(err) != command.ExitAttention ||
				!strings.Contains(out.String(), "front-proxy-ca: etcd was restored from before the last rotation, and the hosts keep what they have. Replace it, and each has the new one alone: holdfast ca rotate front-proxy-ca\n") {
				t.Errorf("%v\n%s", err, out.String())
			}
			if _, said, err := c.rotate(decide.FrontProxyCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
				t.Errorf("%s: %v %q\n%s", phase, err, c.phases, said)
			}
		})
	}
}

// TestARotationWhoseWishVanishesIsNotTakenForComplete: somebody took it away while the command ran.
func TestARotationWhoseWishVanishesIsNotTakenForComplete(t *testing.T) {
	for _, last := range []int{3, 6, 9} {
		synctest.Test(t, func(t *testing.T) {
			c, reads := newCASite(t), 0
			var out, said bytes.Buffer
			r := caRotation{
				rotateCAFlags: rotateCAFlags{timeout: time.Hour, tokenLife: decide.TokenLife, yes: true, withoutBackup: true}, cluster: c, authority: decide.FrontProxyCA,
				streams: Streams{In: &answers{}, Out: &out, Err: &said}, random: rand.Reader,
				now: func() time.Time {
					if reads++; reads >= last {
						delete(c.wish, string(decide.FrontProxyCA))
					}
					return time.Now()
				},
			}
			if err := r.run(t.Context()); codeOf(err) != command.ExitAttention || !strings.Contains(err.Error(), "no longer under way") {
				t.Errorf("after %d readings: %v\n%s", last, err, said.String())
			}
		})
	}
}

// TestTheWaitsOfARotationAreNotCountedByAWrongClock: who types has a clock that is behind, or ahead
// by the second run alone, and the key would go a day too early.
func TestTheWaitsOfARotationAreNotCountedByAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.ahead = 24 * time.Hour
		if _, _, err := c.rotate(decide.ServiceAccountKey, "", nil); codeOf(err) != command.ExitRefused || !strings.Contains(err.Error(), "the clock of this machine says 2000-01-01T00:00:00Z, and cp-1 said 2000-01-01T23:59:55Z last") || len(c.phases) > 0 {
			t.Fatalf("%v %q", err, c.phases)
		}
		c.ahead = 0
		if _, _, err := c.rotate(decide.ServiceAccountKey, "", nil); codeOf(err) != command.ExitAttention {
			t.Fatal(err)
		}
		began := len(c.phases)
		c.ahead = -25 * time.Hour // this machine's clock has jumped since
		time.Sleep(25 * time.Hour)
		if _, said, err := c.rotate(decide.ServiceAccountKey, "", func(f *rotateCAFlags) { f.timeout = time.Minute }); err == nil || !strings.Contains(said, "the clock of this machine says") || len(c.phases) != began {
			t.Errorf("%v %q\n%s", err, c.phases, said)
		}
	})
}

func TestADryRunSaysWhatWouldBeDoneAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		out, _, err := c.rotate(decide.ServiceAccountKey, "no\n", func(f *rotateCAFlags) { f.dryRun = true })
		if err != nil || len(c.phases) > 0 || !strings.Contains(out, "would replace the authority on cp-1, cp-2, one after the other") {
			t.Errorf("%v %q\n%s", err, c.phases, out)
		}
	})
}

func TestTheAuthoritiesOfAClusterAreShown(t *testing.T) {
	c := newCASite(t)
	var out bytes.Buffer
	if err := showCA(t.Context(), c, &out, "text", time.Now()); err != nil {
		t.Fatal(err)
	}
	id := decide.ID(c.old.ID).Short()
	want := "AUTHORITY            HOST      SIGNS     TRUSTS    ENDS\n"
	for _, a := range decide.Authorities() {
		for _, h := range []string{"cp-1", "cp-2"} {
			want += fmt.Sprintf("%-19s  %-8s  %s  %s  2036-11-20\n", a, h, id, id)
		}
	}
	want += fmt.Sprintf("%-19s  worker-1  %s  %s  2036-11-20\n", decide.KubernetesCA, id, id) // workers have no part in the others
	want += `service-account-key: all have the same authority and no other one
front-proxy-ca: all have the same authority and no other one
etcd-ca: all have the same authority and no other one
kubernetes-ca: all have the same authority and no other one
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	c.nodes[1].Ready = false
	if err := showCA(t.Context(), c, &out, "json", time.Now()); codeOf(err) != command.ExitAttention {
		t.Error(err)
	}
}

// One wish that nobody can read hides no other authority, and what to type is said.
func TestAWishThatCannotBeReadHidesNoOtherAuthority(t *testing.T) {
	c := newCASite(t)
	c.wish[string(decide.EtcdCA)] = []byte(`{"phase":"later","salt":"aHVzaA=="}`)
	for _, output := range []string{"text", "json"} {
		var out bytes.Buffer
		err := showCA(t.Context(), c, &out, output, time.Now())
		if codeOf(err) != command.ExitAttention || err.Error() != "not settled: etcd-ca" || strings.Contains(out.String(), "aHVz") {
			t.Errorf("%v\n%s", err, out.String())
		}
		if text := out.String(); output == "text" && (!strings.Contains(text, "\netcd-ca: the Secret kube-system/holdfast-authorities has a wish that cannot be read") ||
			!strings.Contains(text, decide.TakeAway(decide.EtcdCA)+"\n") || !strings.Contains(text, "\nkubernetes-ca: all have the same authority and no other one\n")) {
			t.Error(text)
		}
	}
	if _, _, err := c.rotate(decide.EtcdCA, "", nil); err == nil || !strings.Contains(err.Error(), decide.TakeAway(decide.EtcdCA)) || len(c.phases) > 0 {
		t.Errorf("%v %q", err, c.phases)
	}
}

func TestWhichAuthoritiesAndTimesTheCommandTakes(t *testing.T) {
	good := rotateCAFlags{timeout: time.Minute, tokenLife: time.Hour}
	for name, c := range map[string]struct {
		flags rotateCAFlags
		want  string
	}{
		"service-account-key": {good, ""},
		"front-proxy-ca":      {good, ""},
		"etcd-ca":             {good, ""},
		"kubernetes-ca":       {good, ""},
		"join-key":            {good, "must be service-account-key, front-proxy-ca, etcd-ca or kubernetes-ca"},
	} {
		if _, err := c.flags.check(name); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, f := range []rotateCAFlags{{timeout: 0, tokenLife: time.Hour}, {timeout: time.Minute, tokenLife: time.Minute}} {
		if _, err := f.check("front-proxy-ca"); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}
