package keeper

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestEachEffectHasItsFunctionOnThisHost: one that lacks it would fail on the night on
// which it is needed.
func TestEachEffectHasItsFunctionOnThisHost(t *testing.T) {
	e := reflect.ValueOf(hostEffects())
	for i := range e.NumField() {
		if e.Field(i).IsNil() {
			t.Errorf("%s has none", e.Type().Field(i).Name)
		}
	}
	if c, err := e.Interface().(effects).open(etcd.Config{}); err != nil || c == nil {
		t.Errorf("the client of etcd: %v, %v", c, err)
	}
	if _, err := openEtcd(etcd.Config{ClientURL: "nonsense"}); err == nil {
		t.Error("a URL that is none")
	}
}

func TestTheTimeSinceBootIsZeroWhereTheKernelDoesNotTellIt(t *testing.T) {
	e := effects{boot: func() (string, time.Duration, error) { return "boot-2", time.Hour, nil }}
	if got := e.uptime(); got != time.Hour {
		t.Errorf("%s", got)
	}
	e.boot = func() (string, time.Duration, error) { return "", time.Hour, errors.New("no /proc") }
	if got := e.uptime(); got != 0 {
		t.Errorf("%s", got)
	}
}

// TestWhatIsKnownOfTheProcess: what cannot be read of it speaks against ending it.
func TestWhatIsKnownOfTheProcess(t *testing.T) {
	failed := errors.New("no answer")
	for rule, c := range map[string]struct {
		process podman.Process
		err     error
		blocked bool
		unread  error
		held    bool
		unseen  error
		want    etcdhealth.Process
	}{
		"it runs":                            {process: podman.Process{Running: true, Started: 6000}, held: true, want: etcdhealth.Process{Runs: true, Age: time.Hour - time.Minute}},
		"it does not":                        {process: podman.Process{Started: 6000}, held: true},
		"nobody knows whether it runs":       {process: podman.Process{Running: true}, err: failed, held: true},
		"a signal stopped it":                {process: podman.Process{Running: true, Letter: "T"}, held: true, want: etcdhealth.Process{Runs: true, Stopped: true, Age: time.Hour}},
		"it waits for a disk":                {process: podman.Process{Running: true}, blocked: true, held: true, want: etcdhealth.Process{Runs: true, Blocked: true, Age: time.Hour}},
		"nobody knows whether it does":       {process: podman.Process{Running: true}, unread: failed, held: true, want: etcdhealth.Process{Runs: true, Blocked: true, Age: time.Hour}},
		"it does not hold its data":          {process: podman.Process{Running: true}, want: etcdhealth.Process{Runs: true, Empty: true, Age: time.Hour}},
		"nobody knows whether it holds them": {process: podman.Process{Running: true}, unseen: failed, want: etcdhealth.Process{Runs: true, Age: time.Hour}},
	} {
		p := etcdProcess(t)
		p.look = func(context.Context) (podman.Process, error) { return c.process, c.err }
		p.blocked = func(podman.Process) (bool, error) { return c.blocked, c.unread }
		p.locked = func(string) (bool, error) { return c.held, c.unseen }
		if got := p.State(time.Hour); got != c.want {
			t.Errorf("%s: %+v", rule, got)
		}
	}
}

// TestANoteOfADefragmentationIsRead: and one that is torn, old or without an end near says nothing.
func TestANoteOfADefragmentationIsRead(t *testing.T) {
	p := etcdProcess(t)
	p.look = func(context.Context) (podman.Process, error) { return podman.Process{Running: true}, nil }
	p.blocked = func(podman.Process) (bool, error) { return false, nil }
	p.locked = func(string) (bool, error) { return true, nil }
	keep(t, filepath.Join(p.data(), "member/snap/db"), "12345")
	is := func(what string, at time.Duration, want bool) {
		t.Helper()
		if got := p.State(at); got.Defragments != want || got.Size != 5 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	is("no note", time.Hour, false)
	if err := p.files.WriteDefragmentation(state.EtcdDefragmentation{Began: time.Hour, Until: time.Hour + 50*time.Second}); err != nil {
		t.Fatal(err)
	}
	is("in its time", time.Hour+49*time.Second, true)
	is("at its end, and nobody removed it", time.Hour+50*time.Second, false)
	is("before it", time.Minute, false)
	keep(t, p.files.Path(state.EtcdDefragmentationPath), "{torn")
	is("a torn one", time.Hour, false)
	for range 2 {
		if err := p.files.RemoveDefragmentation(); err != nil {
			t.Fatal(err)
		}
	}
}

// starting returns a process whose parts of a start succeed.
func starting(t *testing.T) *process {
	p := etcdProcess(t)
	p.parameters.PodManifest = filepath.Join(t.TempDir(), "pod.yaml")
	keep(t, p.parameters.PodManifest, podOf(t, "a"))
	keep(t, filepath.Join(p.data(), "member", "x"), "")
	p.settle = func(context.Context, string) error { return nil }
	p.run = func(context.Context, podman.Spec) error { return nil }
	p.locked = func(string) (bool, error) { return true, nil }
	return p
}

// TestAStartEndsAtItsFirstMistake: only a start that made a process counts against the
// data.
func TestAStartEndsAtItsFirstMistake(t *testing.T) {
	failed, at := errors.New("it failed"), starting(t).uptime()
	counted := etcdhealth.Starts{}.Next(at, 1<<40)
	for rule, c := range map[string]struct {
		harm func(*process)
		want string
		says etcdhealth.Starts
	}{
		"all is well":                {func(*process) {}, "", counted},
		"no manifest":                {func(p *process) { p.parameters.PodManifest += "x" }, "no such file", etcdhealth.Starts{}},
		"the disk says nothing":      {func(p *process) { p.freeSpace = func(string) (uint64, error) { return 0, failed } }, "it failed", etcdhealth.Starts{}},
		"the data cannot be settled": {func(p *process) { p.settle = func(context.Context, string) error { return failed } }, "it failed", etcdhealth.Starts{Missed: 1}},
		"podman fails":               {func(p *process) { p.run = func(context.Context, podman.Spec) error { return failed } }, "it failed", etcdhealth.Starts{Missed: 1}},
		"podman fails on a full disk": {func(p *process) {
			p.run = func(context.Context, podman.Spec) error { return failed }
			p.freeSpace = func(string) (uint64, error) { return etcdhealth.LeastSpace - 1, nil }
		}, "it failed", counted},
		"etcd ended before podman looked": {func(p *process) { p.run = func(context.Context, podman.Spec) error { return podman.ErrEnded } }, "no process", counted},
		"etcd ended before it held its data": {func(p *process) {
			p.locked = func(string) (bool, error) { return false, nil }
			p.look = func(context.Context) (podman.Process, error) { return podman.Process{}, nil }
		}, "etcd ended", counted},
		"nobody reads the limits": {func(p *process) { p.restrictOOM = func() (bool, error) { return false, failed } }, "it failed", etcdhealth.Starts{}},
	} {
		p := starting(t)
		c.harm(p)
		err := p.Start(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", rule, err)
		}
		if p.starts != c.says {
			t.Errorf("%s: %+v", rule, p.starts)
		}
	}
	p := starting(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.run = func(context.Context, podman.Spec) error { cancel(); return failed }
	if err := p.Start(ctx); !errors.Is(err, failed) || p.starts != (etcdhealth.Starts{}) {
		t.Errorf("we ended it ourselves: %v, %+v", err, p.starts)
	}
}

// TestAPodmanThatFailsDamagesNothing: a missing image, a damaged database of podman or a
// fork that fails must neither empty a data directory nor have a person restore a backup.
func TestAPodmanThatFailsDamagesNothing(t *testing.T) {
	p := starting(t)
	p.inspect = func(context.Context, string) (state.EtcdData, error) {
		return state.EtcdData{Copy: state.CopyWhole}, nil
	}
	p.run = func(context.Context, podman.Spec) error { return podman.ErrNoImage }
	for i := range 3 * etcdhealth.MaxStarts {
		_ = p.Start(t.Context())
		d, err := p.examine(t.Context())
		want := state.EtcdData{Copy: state.CopyWhole}
		if i+1 >= etcdhealth.MaxStarts {
			want.NoStart, want.Reason = true, podman.ErrNoImage.Error()
		}
		if err != nil || !reflect.DeepEqual(d, want) {
			t.Fatalf("after %d attempts: %+v, %v", i+1, d, err)
		}
	}
	p.run = func(context.Context, podman.Spec) error { return nil }
	_ = p.Start(t.Context())
	if d, err := p.examine(t.Context()); err != nil || d.NoStart || d.Reason != "" {
		t.Errorf("after a start: %+v, %v", d, err)
	}
}

func TestALearnerWithoutDataIsNotSettled(t *testing.T) {
	p := etcdProcess(t)
	settled := 0
	p.settle = func(_ context.Context, dir string) error { settled++; return p.isIt(dir) }
	if err := p.prepare(t.Context()); err != nil || settled != 0 {
		t.Errorf("no data: %v, settled %d times", err, settled)
	}
	keep(t, filepath.Join(p.data(), "member", "x"), "")
	if err := p.prepare(t.Context()); err != nil || settled != 1 {
		t.Errorf("data: %v, settled %d times", err, settled)
	}
	p.files.Root = filepath.Join(p.data(), "member", "x") // a file, below which nothing can be asked for
	if err := p.prepare(t.Context()); err == nil || settled != 1 {
		t.Errorf("what cannot be asked for: %v, settled %d times", err, settled)
	}
}

func (p *process) isIt(dir string) error {
	if dir != p.data() {
		return errors.New("other data: " + dir)
	}
	return nil
}

// TestTheScoreOfEtcdIsLoweredOnlyWhereTheHostMay: a host may raise it always.
func TestTheScoreOfEtcdIsLoweredOnlyWhereTheHostMay(t *testing.T) {
	for _, c := range []struct {
		restricted bool
		oom        int
		set        bool
	}{{false, -5, true}, {true, -5, false}, {true, 0, true}, {true, 5, true}} {
		p := starting(t)
		p.parameters.OOM = c.oom
		p.restrictOOM = func() (bool, error) { return c.restricted, nil }
		spec, err := p.wanted()
		if err != nil || (spec.OOMScore != nil) != c.set || c.set && *spec.OOMScore != c.oom {
			t.Errorf("%+v: %v, %v", c, spec.OOMScore, err)
		}
	}
}

// TestEtcdComesBeforeAllPodsOfAFewProcessors: 1024 is what the pods of one processor have.
func TestEtcdComesBeforeAllPodsOfAFewProcessors(t *testing.T) {
	if spec, err := starting(t).wanted(); err != nil || spec.CPUShares < 8*1024 {
		t.Errorf("etcd has %d shares: %v", spec.CPUShares, err)
	}
}

// TestAnEtcdOfAnotherManifestIsOutdated: one that does not run is not. Of one without a
// note podman is asked, and what podman does not say is unknown.
func TestAnEtcdOfAnotherManifestIsOutdated(t *testing.T) {
	p := starting(t)
	spec, err := p.wanted()
	if err != nil {
		t.Fatal(err)
	}
	for rule, c := range map[string]struct {
		now     podman.Process
		podman  string // what it says of a process without a note
		old     bool
		unknown bool
	}{
		"the present one":                   {podman.Process{Running: true, PID: 7, Spec: spec.Hash()}, "other", false, false},
		"another one":                       {podman.Process{Running: true, PID: 7, Spec: "other"}, spec.Hash(), true, false},
		"podman knows the present one":      {podman.Process{Running: true, PID: 8}, spec.Hash(), false, false},
		"podman knows another one":          {podman.Process{Running: true, PID: 9}, "other", true, false},
		"podman does not say":               {podman.Process{Running: true, PID: 10}, "", false, true},
		"it is down":                        {podman.Process{PID: 7, Spec: "other"}, "other", false, false},
		"it is down, and there is no note":  {podman.Process{PID: 11}, "other", false, false},
		"a number that another process had": {podman.Process{Running: true, PID: 9, Started: 1}, spec.Hash(), false, false},
	} {
		p.look = func(context.Context) (podman.Process, error) { return c.now, nil }
		p.adopt = func(_ context.Context, name string, of podman.Process) (string, error) {
			if name != spec.Name || of != c.now {
				t.Errorf("%s: podman was asked for %s, %+v", rule, name, of)
			}
			if c.podman == "" {
				return "", errors.New("no answer")
			}
			return c.podman, nil
		}
		if old, err := p.Outdated(); old != c.old || (err != nil) != c.unknown {
			t.Errorf("%s: %t, %v", rule, old, err)
		}
	}
	p.look = func(context.Context) (podman.Process, error) { return podman.Process{}, errors.New("no /proc") }
	if _, err := p.Outdated(); err == nil {
		t.Error("it cannot be looked at")
	}
	p.parameters.PodManifest = filepath.Dir(p.parameters.PodManifest)
	if old, err := p.Outdated(); old || err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a manifest that cannot be read: %t, %v", old, err)
	}
}

// TestARestartStopsFirst: where the stop fails nothing is started.
func TestARestartStopsFirst(t *testing.T) {
	p := starting(t)
	var did []string
	p.stop = func(_ context.Context, grace time.Duration) error {
		if did = append(did, "stop"); grace != stopGrace {
			t.Errorf("it gets %s", grace)
		}
		p.locked = func(string) (bool, error) { return len(did) > 1, nil }
		return nil
	}
	p.run = func(context.Context, podman.Spec) error { did = append(did, "start"); return nil }
	if err := p.Restart(t.Context()); err != nil || strings.Join(did, " ") != "stop start" {
		t.Errorf("%v, did %v", err, did)
	}
	did = nil
	p.stop = func(context.Context, time.Duration) error { return errors.New("no answer") }
	if err := p.Restart(t.Context()); err == nil || len(did) > 0 {
		t.Errorf("%v, did %v", err, did)
	}
}

// TestDataWithWhichEtcdEndsAgainAndAgain are damaged, unless the disk is full.
func TestDataWithWhichEtcdEndsAgainAndAgain(t *testing.T) {
	failed := errors.New("it failed")
	often := func(p *process) {
		for range etcdhealth.MaxStarts + 1 {
			p.starts = p.starts.Next(time.Hour, 1<<40)
		}
	}
	for rule, c := range map[string]struct {
		copy    state.CopyState
		err     error
		harm    func(*process)
		want    state.CopyState
		noSpace bool
		fails   bool
	}{
		"whole":                              {copy: state.CopyWhole, harm: func(*process) {}, want: state.CopyWhole},
		"it ended again and again":           {copy: state.CopyWhole, harm: often, want: state.CopyDamaged},
		"but the disk is full":               {copy: state.CopyWhole, harm: func(p *process) { often(p); p.freeSpace = func(string) (uint64, error) { return 1, nil } }, want: state.CopyWhole, noSpace: true},
		"no data are as they are":            {copy: state.CopyNone, harm: often, want: state.CopyNone},
		"damaged ones too":                   {copy: state.CopyDamaged, harm: often, want: state.CopyDamaged},
		"they cannot be read":                {copy: state.CopyWhole, err: failed, harm: often, want: state.CopyWhole, fails: true},
		"nobody knows whether there is room": {copy: state.CopyWhole, harm: func(p *process) { often(p); p.freeSpace = func(string) (uint64, error) { return 0, failed } }, want: state.CopyWhole, fails: true},
	} {
		p := etcdProcess(t)
		p.inspect = func(_ context.Context, dir string) (state.EtcdData, error) {
			return state.EtcdData{Copy: c.copy}, errors.Join(c.err, p.isIt(dir))
		}
		c.harm(p)
		d, err := p.examine(t.Context())
		if d.Copy != c.want || d.NoSpace != c.noSpace || (err != nil) != c.fails {
			t.Errorf("%s: %+v, %v", rule, d, err)
		}
		want := ""
		if rule == "it ended again and again" {
			want = fmt.Sprintf("it looks whole, but etcd ended %d times in a row within %s of its start", p.starts.Failed, etcdhealth.Lasting)
		}
		if d.Reason != want {
			t.Errorf("%s: %q", rule, d.Reason)
		}
	}
}

func TestAnEtcdThatEndedBesideAFullDiskAsksForRoom(t *testing.T) {
	p := etcdProcess(t)
	for free, want := range map[uint64]string{etcdhealth.LeastSpace - 1: "make room", etcdhealth.LeastSpace: "podman logs etcd"} {
		p.freeSpace = func(string) (uint64, error) { return free, nil }
		if err := p.ended(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", free, err)
		}
	}
	p.freeSpace = func(string) (uint64, error) { return 0, errors.New("no answer") }
	if err := p.ended(); err == nil || !strings.Contains(err.Error(), "podman logs etcd") {
		t.Errorf("%v", err)
	}
}

// TestDataAreBackedUpWhereAnybodyWantsIt: and a folder that is emptied is judged anew.
func TestDataAreBackedUpWhereAnybodyWantsIt(t *testing.T) {
	failed := errors.New("no space")
	backups, emptied, dir := 0, 0, t.TempDir()
	c := copies{dir: dir, emptied: func() { emptied++ }, effects: effects{
		backup: func(context.Context, string, string, int, int64) (string, error) { backups++; return "", failed },
		empty:  func(string) error { return failed },
	}}
	if err := c.Backup(t.Context()); err != nil || backups != 0 {
		t.Errorf("none are wanted: %v, %d", err, backups)
	}
	c.parameters.Backups = 1
	if err := c.Backup(t.Context()); !errors.Is(err, failed) || backups != 1 {
		t.Errorf("%v, %d", err, backups)
	}
	if err := c.Empty(t.Context()); !errors.Is(err, failed) || emptied != 0 {
		t.Errorf("%v, %d", err, emptied)
	}
	c.empty = func(string) error { return nil }
	if err := c.Empty(t.Context()); err != nil || emptied != 1 {
		t.Errorf("%v, %d", err, emptied)
	}
	if there, err := c.There(); there || err != nil {
		t.Errorf("no data: %t, %v", there, err)
	}
	keep(t, filepath.Join(dir, "member", "x"), "")
	if there, err := c.There(); !there || err != nil {
		t.Errorf("data: %t, %v", there, err)
	}
	c.dir = filepath.Join(dir, "member", "x")
	if there, err := c.There(); there || err == nil {
		t.Errorf("what cannot be asked for: %t, %v", there, err)
	}
}

// TestAStandInAsksForWhatItsOwnClusterReached and is not started again at once.
func TestAStandInAsksForWhatItsOwnClusterReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []uint64
		s := standIn{address: lan("192.0.2.1"), effects: effects{startStandIn: func(r etcd.StandInRequest) (int, error) {
			asked = append(asked, r.LeastIndex)
			return 0, nil
		}}}
		s.reached(0xc, 9)
		for i, c := range []struct {
			cluster state.MemberID
			after   time.Duration
		}{{0xc, 0}, {0xc, standInPause - 1}, {0xc, 1}, {0xe, standInPause}} {
			time.Sleep(c.after)
			if err := s.Start(t.Context(), 0xb, state.EtcdRecord{Cluster: c.cluster}); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if !reflect.DeepEqual(asked, []uint64{9, 9, 0}) {
			t.Errorf("asked for %v", asked)
		}
	})
}

// TestTheBMCIsAskedWhileItsAnswerIsWanted: and each change of the answer is told once.
func TestTheBMCIsAskedWhileItsAnswerIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted, power, failed, changes, asked, wait := false, "On", error(nil), 0, 0, time.Duration(0)
		b := &bmc{peer: "beta", stale: bmcStale, wanted: func() bool { return wanted }, power: func(_ context.Context, peer string) (string, time.Duration, error) {
			if asked++; peer != "beta" {
				t.Errorf("asked %q", peer)
			}
			return power, wait, failed
		}}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.ask(ctx, func() { changes++ }) }()
		for _, c := range []struct {
			rule    string
			change  func()
			asked   int
			changes int
			want    state.Fact[string]
		}{
			{"nobody wants it", func() {}, 0, 0, state.Fact[string]{}},
			{"it is wanted", func() { wanted = true }, 1, 1, state.Known("On")},
			{"it says the same", func() {}, 1, 0, state.Known("On")},
			{"it says another thing", func() { power = "Off" }, 1, 1, state.Known("Off")},
			{"it does not answer", func() { failed = errors.New("no route") }, 1, 1, state.Fact[string]{}},
			{"it answers again", func() { failed = nil }, 1, 1, state.Known("Off")},
			{"nobody wants it any more", func() { wanted = false }, 0, 1, state.Fact[string]{}},
		} {
			c.change()
			changes, asked = 0, 0
			time.Sleep(bmcEvery)
			synctest.Wait()
			if got := b.state(); got != c.want || asked != c.asked || changes != c.changes {
				t.Errorf("%s: %+v, asked %d times, told %d times", c.rule, got, asked, changes)
			}
		}
		wanted, failed, wait, asked = true, errors.New("it refuses the account"), fencing.RefusedAgain, 0
		time.Sleep(10 * fencing.RefusedAgain)
		synctest.Wait()
		if asked != 10 {
			t.Errorf("a BMC that refuses the account was told it %d times in %s", asked, 10*fencing.RefusedAgain)
		}
		end()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// TestAQuestionToABMCHasItsTime: one that hangs ends, and the answer before it counts
// only for the first of it.
func TestAQuestionToABMCHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bmc{stale: bmcStale, power: func(ctx context.Context, _ string) (string, time.Duration, error) {
			<-ctx.Done()
			return "Off", 0, context.Cause(ctx)
		}}
		b.set(state.Known("Off"))
		began, told := time.Now(), time.Duration(0)
		if got, _ := b.question(t.Context(), func() { told = time.Since(began) }); got.Known || time.Since(began) != bmcTime || told != bmcStale {
			t.Errorf("%+v after %s, forgotten after %s", got, time.Since(began), told)
		}
	})
}
