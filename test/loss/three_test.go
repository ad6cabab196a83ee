package loss_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// comingWithin has room for the gates and the other host's copy of the plan.
	comingWithin = 3 * time.Minute
	// threeWithin has room for an installation, and for guards that are lifted.
	threeWithin = 25 * time.Minute
	// votesOf counts the voters of etcd, as this host has them.
	votesOf = "PATH=/usr/local/bin:$PATH; etcdctl --endpoints https://localhost:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt " +
		"--key /etc/kubernetes/pki/etcd/server.key member list | grep -c 'started.*false$'"
)

// TestASiteGrowsFromTwoControlPlanesToThree lets a third control plane in while clients write through
// the virtual IP, and then loses each of the three in turn. With -widen-cut it cuts the power of one
// host once, at a stage of the plan (hack/test loss SCENARIOS=ToThree CUT=handing:cp-1).
func TestASiteGrowsFromTwoControlPlanesToThree(t *testing.T) {
	s := up(t, 2, "--spare-control-planes=1")
	const first, second, third = "cp-1", "cp-2", "cp-3"
	w := s.writeAt("vip", s.Lab.Layout.APIVIPs[0])
	began := time.Now()
	s.bringsThird(first, third)
	s.followThree(first)
	t.Logf("three control planes %.0f s after the command", time.Since(began).Seconds())
	w.paused("until then", stepPause)
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	for _, name := range []string{first, second, third} {
		if err := s.vote(name, 3); err != nil {
			t.Error(err)
		}
		s.nothingOfTwo(name)
	}

	for _, lost := range []string{first, second, third} {
		w.goesOnWithout(lost)
		s.eventually(wholeWithin, "the site is whole with "+lost, func() error { return s.Whole(t.Context()) })
	}
	w.judge()
}

// goesOnWithout cuts the power of one of several control planes, waits until the others serve without it, and
// switches it on again.
func (w *writes) goesOnWithout(lost string) {
	w.Helper()
	cut := time.Now()
	w.power(lost, "cut")
	w.eventually(takesOverWithin, "the site serves without "+lost, func() error {
		if w.rec.Last("") < w.rec.At(cut.Add(5*time.Second)) {
			return errors.New("nobody has written since")
		}
		return nil
	})
	gap := w.rec.Copy().Gap("", w.rec.At(cut), w.rec.Since())
	w.Logf("without %s nobody wrote for %.1f s", lost, gap.Length.Seconds())
	w.power(lost, "on")
}

// TestAThirdControlPlaneThatIsLostRightAfterItsVoteIsTakenOut takes the power from the third machine for
// good once it votes, and its API server has not answered yet. The two are a pair again by one command,
// and either may be lost.
func TestAThirdControlPlaneThatIsLostRightAfterItsVoteIsTakenOut(t *testing.T) {
	s := up(t, 2, "--spare-control-planes=1")
	const first, second, third = "cp-1", "cp-2", "cp-3"
	w := s.writeAt("vip", s.Lab.Layout.APIVIPs[0])
	s.bringsThird(first, third)
	s.eventually(threeWithin, "three vote", func() error { return s.vote(first, 3) })
	s.power(third, "cut")
	cut := time.Now()
	plan := s.widening(first)
	if plan.Stage != widen.LettingIn || plan.Newcomer.Machine.Serial == "" {
		t.Fatalf("the plan is at %s, the machine that came is %+v", plan.Stage, plan.Newcomer.Machine)
	}
	const follow = "holdfast topology apply --by test --timeout 5s"
	s.eventually(wholeWithin, "the command says that the third machine does not answer", func() error {
		out, err := s.Sh(t.Context(), first, follow)
		if said := fmt.Sprint(out, err); !strings.Contains(said, third+" votes, and its etcd does not answer") || !strings.Contains(said, "--abort --is-gone SERIAL") {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	})
	if out, err := s.Sh(t.Context(), first, "holdfast topology apply --by test --abort --is-gone another"); err == nil || !strings.Contains(fmt.Sprint(out, err), "is not the serial number of "+third) {
		t.Errorf("another serial number: %s, %v", out, err)
	}
	if out := s.on(first, "holdfast topology apply --by test --timeout 3m --abort --is-gone "+plan.Newcomer.Machine.Serial); !strings.Contains(out, "taken back: an administrator said that "+third+" will not come back") {
		t.Error(out)
	}
	t.Logf("the plan was taken back %.0f s after the power cut", time.Since(cut).Seconds())
	w.paused("until then", stepPause)
	for _, name := range []string{first, second} {
		s.eventually(wholeWithin, name+" is one of a pair again", func() error { return errors.Join(s.vote(name, 2), s.records(name, state.EtcdPair), s.healthy(name)) })
	}
	lost := time.Now()
	s.power(first, "cut")
	s.eventually(takesOverWithin, "the other host takes over", func() error { return s.sole(second) })
	t.Logf("%s had taken over %.0f s after %s lost its power", second, time.Since(lost).Seconds(), first)
	s.power(first, "on")
	for _, name := range []string{first, second} {
		s.eventually(wholeWithin, name+" is one of a pair again", func() error { return errors.Join(s.records(name, state.EtcdPair), s.healthy(name)) })
	}
	s.wakesUnfinished(third, first, second)
	w.judge()
}

// movesPause is for how long clients may be without a write while etcd of one of two hosts moves to
// kubelet without a third member.
const movesPause = 20 * time.Second

// TestAThirdControlPlaneThatIsLostWhileEtcdMovesIsNotWaitedFor takes the power from the third machine
// once the plan only goes forward. By a person's word the two become two of three, which write on. The
// word was wrong: the machine comes back, and is one of three.
func TestAThirdControlPlaneThatIsLostWhileEtcdMovesIsNotWaitedFor(t *testing.T) {
	s := up(t, 2, "--spare-control-planes=1")
	const first, second, third = "cp-1", "cp-2", "cp-3"
	w := s.writeAt("vip", s.Lab.Layout.APIVIPs[0])
	s.bringsThird(first, third)
	s.eventually(threeWithin, "the plan only goes forward", func() error {
		if stage := s.widening(first).Stage; stage != widen.Handing {
			return fmt.Errorf("the plan is at %s", stage)
		}
		return nil
	})
	s.power(third, "cut")
	cut, plan := time.Now(), s.widening(first)
	const follow = "holdfast topology apply --by test --timeout 5s"
	s.eventually(wholeWithin, "the command says that the third machine does not answer", func() error {
		out, err := s.Sh(t.Context(), first, follow)
		if said := fmt.Sprint(out, err); !strings.Contains(said, "etcd of "+third+" does not answer, and the plan waits for it") {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	})
	for what, c := range map[string]struct{ flags, want string }{
		"another serial number": {"--is-gone another", "is not the serial number of " + third},
		"taken back":            {"--abort --is-gone " + plan.Newcomer.Machine.Serial, "leave --abort out"},
	} {
		if out, err := s.Sh(t.Context(), first, follow+" "+c.flags); err == nil || !strings.Contains(fmt.Sprint(out, err), c.want) {
			t.Errorf("%s: %s, %v", what, out, err)
		}
	}
	said := time.Now()
	out, err := s.Sh(t.Context(), first, "holdfast topology apply --by test --timeout 3s --is-gone "+plan.Newcomer.Machine.Serial)
	t.Logf("the word is given: %s, %v", out, err)
	s.followThree(first)
	t.Logf("three control planes %.0f s after the power cut, %.0f s after the word", time.Since(cut).Seconds(), time.Since(said).Seconds())
	w.paused("until then", movesPause)
	for _, name := range []string{first, second} {
		if err := s.vote(name, 3); err != nil {
			t.Error(err)
		}
	}
	s.power(third, "on")
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	for _, name := range []string{first, second, third} {
		s.eventually(wholeWithin, name+" says that it is healthy", func() error { return s.healthy(name) })
	}
	w.judge()
}

// outFor is how long a third machine that was taken out, and wakes up, is watched.
const outFor = time.Minute

// wakesUnfinished switches a third machine on that was taken out, with its disk. Its installation had
// not ended, so it does not know of a place that it could have lost: kubelet starts an etcd that nobody
// listens to. It holds no virtual IP, and the other two stay a pair.
func (s site) wakesUnfinished(third string, others ...string) {
	s.Helper()
	s.power(third, "on")
	s.eventually(outFor, third+" boots, and its etcd runs", func() error {
		_, err := s.Sh(s.Context(), third, "pgrep -x etcd")
		return err
	})
	for until := time.Now().Add(outFor); time.Now().Before(until); time.Sleep(time.Second) {
		s.holdsNone(third)
		for _, name := range others {
			if err := errors.Join(s.vote(name, len(others)), s.records(name, state.EtcdPair)); err != nil {
				s.Fatal(err)
			}
		}
	}
	for _, name := range others {
		s.eventually(wholeWithin, name+" says that it is healthy", func() error { return s.healthy(name) })
	}
}

// bringsThird begins the plan for a third control plane, and installs its machine.
func (s site) bringsThird(carrier, third string) {
	s.Helper()
	began := time.Now()
	s.installConfig(carrier, 3, "/root/three.yaml")
	command := fmt.Sprintf("holdfast topology apply --install-config /root/three.yaml --new-name %s --address %s --without-backup --yes --by test --timeout 20s", third, s.Address(third, lab.V4))
	s.eventually(comingWithin, "the third host may be installed", func() error {
		out, err := s.Sh(s.Context(), carrier, command)
		command = "holdfast topology apply --by test --join-file /root/join.ign --timeout 10s"
		if strings.Contains(fmt.Sprint(out, err), "install the new machine") {
			return nil
		}
		return fmt.Errorf("%s, %w", out, err)
	})
	s.Logf("the third host may be installed after %.0f s", time.Since(began).Seconds())
	s.install(third, s.on(carrier, "cat /root/join.ign"))
	if err := s.Reopen(); err != nil {
		s.Fatal(err)
	}
}

// vote returns an error unless so many vote, by the etcd of a host.
func (s site) vote(host string, n int) error {
	out, err := s.Sh(s.Context(), host, votesOf)
	if out = strings.TrimSpace(out); err == nil && out != strconv.Itoa(n) {
		err = fmt.Errorf("%s lists %s voters, want %d", host, out, n)
	}
	return err
}

// widening returns the plan for a third control plane.
func (s site) widening(carrier string) (plan widen.Plan) {
	s.Helper()
	data, err := s.ReadFile(s.Context(), carrier, replacement.WidenPlanPath)
	if err == nil {
		err = json.Unmarshal(data, &plan)
	}
	if err != nil {
		s.Fatal(err)
	}
	return plan
}

// followThree follows the plan on the host that carries it to its end, and cuts the power of a host at
// the stage that the flag names.
func (s site) followThree(carrier string) {
	s.Helper()
	stage, lost, cuts := strings.Cut(*cutAt, ":")
	last := widen.Stage("")
	s.eventually(threeWithin, "the site has three control planes", func() error {
		out, err := s.Sh(s.Context(), carrier, "holdfast topology apply --by test --timeout 3s")
		if strings.Contains(out, "is the third control plane: any one may be lost") {
			return nil
		}
		var plan widen.Plan
		data, unread := s.ReadFile(s.Context(), carrier, replacement.WidenPlanPath)
		if unread == nil {
			unread = json.Unmarshal(data, &plan)
		}
		if unread == nil && plan.Stage != last {
			last = plan.Stage
			s.Logf("the plan is at %s: %s", last, strings.TrimSpace(fmt.Sprint(out, err)))
		}
		if cuts && string(last) == stage {
			cuts = false
			s.Logf("%s loses its power", lost)
			s.power(lost, "cut")
			s.power(lost, "on")
		}
		return fmt.Errorf("%s: %s, %w", last, out, errors.Join(err, unread, errors.New("not yet")))
	})
	if cuts {
		s.Errorf("the plan was never seen at %s, so %s has not lost its power", stage, lost)
	}
}
