package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// three is a site of three control planes of which cp-3 is lost.
type three struct {
	client.WithWatch
	members []state.EtcdMember
	root    string
	site    *site.Site
	out     bytes.Buffer
}

func newThree(t *testing.T) *three {
	t.Helper()
	root, s := siteRoot(t, sitetest.ThreeV6, state.RoleMaster, nil)
	c := hostSite(t, traces("cp-3")...)
	key := client.ObjectKey{Namespace: "kube-system", Name: "cluster-config-v1"}
	cm := &corev1.ConfigMap{}
	put(t, c.Get(t.Context(), key, cm))
	cm.Data["install-config"] = "controlPlane: {replicas: 3}\n"
	put(t, c.Update(t.Context(), cm))
	for i, name := range []string{"cp-2", "cp-3"} {
		n := nodeOf(t, c, "cp-1").DeepCopy()
		n.Name, n.UID, n.ResourceVersion = name, "uid-w-1", ""
		n.Annotations[state.AnnotationMachine] = state.Machine{UUID: name, Serial: "S" + name[3:]}.String()
		if i == 1 {
			isReady(corev1.ConditionUnknown)(&n.Status)
		}
		put(t, c.Create(t.Context(), n))
	}
	return &three{WithWatch: c, root: root, site: s, members: []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 3, Name: "cp-3"}}}
}

// replaces is a run of the command on cp-1. The new machine joins when it is waited for.
func (s *three) replaces(t *testing.T, c client.Client, next string) *workerReplacement {
	t.Helper()
	w := replaces(t, c, s.root, next, &s.out)
	w.old.name, w.gone, w.old.isOff, w.noBackup = "cp-3", "S3", "S3", true
	if next == "" {
		w.new.name = "cp-3"
	}
	w.old.again = w.again()
	w.old.plane = &planeMember{
		here: "cp-1", typed: "S3", backup: backupFirst{without: true}, cluster: c, now: time.Now,
		members: func(context.Context) ([]state.EtcdMember, error) { return slices.Clone(s.members), nil },
		statuses: func(context.Context, map[string]string) map[string]etcd.MemberStatus {
			votes := etcd.MemberStatus{Serves: true, Leader: 1}
			return map[string]etcd.MemberStatus{"cp-1": votes, "cp-2": votes}
		},
		drop: func(_ context.Context, id state.MemberID) error {
			s.members = slices.DeleteFunc(s.members, func(m state.EtcdMember) bool { return m.ID == id })
			return nil
		},
	}
	w.joined = func(ctx context.Context, _ *site.Site) error {
		n := nodeOf(t, s, "cp-2").DeepCopy() //nolint:contextcheck // the test has its own
		n.Name, n.UID, n.ResourceVersion = w.new.name, "uid-new", ""
		n.CreationTimestamp.Time = time.Now()
		s.members = append(s.members, state.EtcdMember{ID: 9, Name: w.new.name, Learner: true})
		time.AfterFunc(time.Minute, func() { s.members[2].Learner = false })
		return client.IgnoreAlreadyExists(s.Create(context.WithoutCancel(ctx), n))
	}
	return w
}

func TestOneOfThreeControlPlanesIsReplaced(t *testing.T) {
	for _, next := range []string{"", "cp-7"} {
		synctest.Test(t, func(t *testing.T) {
			s := newThree(t)
			w := s.replaces(t, s, next)
			if err := w.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(s.members) != 3 || s.members[2].ID != 9 || s.members[2].Learner || nodeOf(t, s, w.new.name).UID != "uid-new" {
				t.Errorf("it ends before the new host votes: %+v", s.members)
			}
			list, err := readRetired(t.Context(), s)
			if h, listed := list.Value.Of("cp-3"); err != nil || !listed || !h.ControlPlane || !h.Off {
				t.Errorf("the entry is %+v, %v", h, err)
			}
			claims, err := jointoken.Read(s.site.Identity.JoinKey, secretOf(t, fileAt(t, w.joinFile)), jointoken.Config, time.Now())
			if err != nil || claims.Role != state.RoleMaster || claims.Host != w.new.name {
				t.Errorf("the join file is for %+v, %v", claims, err)
			}
			if err := s.replaces(t, s, next).run(t.Context()); err != nil || s.members[2].ID != 9 {
				t.Errorf("typed again it takes the new host out: %+v, %v", s.members, err)
			}
		})
	}
}

// kubeadm makes the new machine a voter before its Node exists, and a person who was cut off types the
// command again at any moment of that.
func TestTypedAgainWhileItJoinsTheNewControlPlaneKeepsItsTokenAndItsMember(t *testing.T) {
	for _, c := range []struct {
		sentence string
		member   []state.EtcdMember
		approved bool
	}{
		{"it has its token", nil, false},
		{"it is a learner", []state.EtcdMember{{ID: 9, Name: "cp-3", Learner: true}}, false},
		{"it votes", []state.EtcdMember{{ID: 9, Name: "cp-3"}}, false},
		{"its request was approved", []state.EtcdMember{{ID: 9, Name: "cp-3"}}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newThree(t)
			cut := s.replaces(t, s, "")
			cut.joined = func(context.Context, *site.Site) error { return errors.New("the person typed ^C") }
			if err := cut.run(t.Context()); err == nil || len(s.members) != 2 {
				t.Fatalf("%s: %v, %+v", c.sentence, err, s.members)
			}
			time.Sleep(5 * time.Minute)
			token := traces("cp-3")[2]
			token.SetCreationTimestamp(metav1.Now())
			put(t, s.Create(t.Context(), token))
			s.members = append(s.members, c.member...)
			if c.approved {
				list, err := readRetired(t.Context(), s)
				put(t, err)
				h, _ := list.Value.Of("cp-3")
				h.Again = time.Now()
				put(t, cut.old.mark(t.Context(), h))
			}
			again := s.replaces(t, s, "")
			again.joined = func(context.Context, *site.Site) error { return errors.New("it is waited for") }
			if err := again.run(t.Context()); err == nil || err.Error() != "it is waited for" {
				t.Errorf("%s: %v", c.sentence, err)
			}
			if len(s.members) != 2+len(c.member) {
				t.Errorf("%s: its member was taken out: %+v", c.sentence, s.members)
			}
			put(t, s.Get(t.Context(), client.ObjectKeyFromObject(token), token))
		})
	}
}

// The Node of the new machine is younger than a day, so the command took it for the one that is waited for.
func TestANewControlPlaneThatDiesWithinADayIsReplacedByItsOwnSerialNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newThree(t)
		writesStatus(t, s, "cp-3", func(n *corev1.NodeStatus) { n.NodeInfo.SystemUUID = "board-a" })
		joins := func(id state.MemberID, serial string, end error) func(context.Context, *site.Site) error {
			return func(ctx context.Context, _ *site.Site) error {
				n := nodeOf(t, s, "cp-2").DeepCopy() //nolint:contextcheck // the test has its own
				n.Name, n.UID, n.ResourceVersion = "cp-3", types.UID("uid-"+serial), ""
				n.CreationTimestamp.Time = time.Now()
				n.Annotations[state.AnnotationMachine] = state.Machine{Serial: serial}.String()
				n.Status.NodeInfo.SystemUUID = "board of " + serial
				if end != nil {
					isReady(corev1.ConditionUnknown)(&n.Status)
				}
				s.members = append(s.members, state.EtcdMember{ID: id, Name: "cp-3"})
				list, err := readRetired(ctx, s)
				put(t, err)
				h, _ := list.Value.Of("cp-3")
				h.Again = time.Now()
				put(t, s.replaces(t, s, "").old.mark(ctx, h))
				put(t, s.Create(ctx, n))
				return end
			}
		}
		died := errors.New("the new machine burns")
		first := s.replaces(t, s, "")
		first.joined = joins(9, "SB", died)
		if err := first.run(t.Context()); !errors.Is(err, died) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		s.out.Reset()
		again := s.replaces(t, s, "")
		again.joined = func(context.Context, *site.Site) error { return died }
		if err := again.run(t.Context()); !errors.Is(err, died) || s.members[2].ID != 9 || !strings.Contains(s.out.String(), "no join file is made: cp-3 is a node already") {
			t.Errorf("the first machine's serial number takes the new host out: %+v, %v, %s", s.members, err, &s.out)
		}
		own := s.replaces(t, s, "")
		own.gone, own.old.isOff, own.old.plane.typed = "SB", "SB", "SB"
		own.joined = joins(10, "SC", nil)
		if err := own.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := readRetired(t.Context(), s)
		if h, _ := list.Value.Of("cp-3"); err != nil || h.UID != "uid-SB" || !h.Off {
			t.Errorf("the entry is %+v, %v", h, err)
		}
		if len(s.members) != 3 || s.members[2].ID != 10 || nodeOf(t, s, "cp-3").UID != "uid-SC" {
			t.Errorf("it is not replaced: %+v", s.members)
		}
	})
}

func TestAReplacementOfOneOfThreeThatEndsAtAnyWriteGoesOn(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for at := range 6 {
			synctest.Test(t, func(t *testing.T) {
				s := newThree(t)
				ctx, crash := context.WithCancel(t.Context())
				defer crash()
				writes := 0
				fails := func(write func() error) error {
					if writes++; writes-1 != at {
						return write()
					}
					defer crash()
					if lost {
						_ = write()
					}
					return errors.New("the connection was lost")
				}
				c := interceptor.NewClient(s.WithWatch, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						return fails(func() error { return c.Create(ctx, o, opts...) })
					},
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
						return fails(func() error { return c.Patch(ctx, o, p, opts...) })
					},
					Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
						return fails(func() error { return c.Delete(ctx, o, opts...) })
					},
				})
				w := s.replaces(t, c, "")
				drop := w.old.plane.drop
				w.old.plane.drop = func(ctx context.Context, id state.MemberID) error {
					return fails(func() error { return drop(ctx, id) })
				}
				if err := w.run(ctx); err == nil {
					t.Fatalf("write %d did not fail", at)
				}
				if err := s.replaces(t, s, "").run(t.Context()); err != nil {
					t.Errorf("write %d, done %t: %v", at, lost, err)
				}
				if len(s.members) != 3 || s.members[2].ID != 9 || nodeOf(t, s, "cp-3").UID != "uid-new" {
					t.Errorf("write %d, done %t: %+v", at, lost, s.members)
				}
			})
		}
	}
}

// TestOneOfThreeIsReplacedOnceTheSiteHasABackup: it has none, or the lost host alone has one, and it takes
// one before a member of etcd goes.
func TestOneOfThreeIsReplacedOnceTheSiteHasABackup(t *testing.T) {
	for sentence, of := range map[string]string{"it has none": "", "the lost host alone has one": "cp-3"} {
		synctest.Test(t, func(t *testing.T) {
			s := newThree(t)
			w := s.replaces(t, s, "")
			members := 0
			takes := func(ctx context.Context, name string, taken time.Time) error {
				n := nodeOf(t, s, name).DeepCopy() //nolint:contextcheck // the test has its own
				n.Annotations = toldOfBackup(state.Node{Annotations: n.Annotations}, taken).Annotations
				return s.Update(ctx, n)
			}
			if of != "" {
				put(t, takes(t.Context(), of, time.Now().Add(-2*time.Hour)))
			}
			w.old.plane.backup = backupFirst{out: io.Discard, take: func(ctx context.Context) error {
				members = len(s.members)
				return takes(ctx, "cp-1", time.Now())
			}}
			if err := w.run(t.Context()); err != nil || members != 3 || s.members[2].ID != 9 {
				t.Errorf("%s: %v: a backup was taken with %d members; now %+v", sentence, err, members, s.members)
			}
		})
	}
}

func TestAControlPlaneOfThreeThatMayRunKeepsItsMember(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(*three, *workerReplacement)
		code   int
		says   string
	}{
		"nobody said that it is off": {func(_ *three, w *workerReplacement) { w.gone, w.old.isOff, w.old.plane.typed = "", "", "" }, command.ExitRefused, "--is-gone SERIAL"},
		"another machine was seen":   {func(_ *three, w *workerReplacement) { w.old.isOff, w.old.plane.typed = "S2", "S2" }, command.ExitRefused, "is not the serial number"},
		"it is Ready":                {func(s *three, _ *workerReplacement) { writesStatus(t, s, "cp-3", isReady(corev1.ConditionTrue)) }, command.ExitRefused, "its Node is Ready"},
		"another voter is away": {func(_ *three, w *workerReplacement) {
			w.old.plane.statuses = func(context.Context, map[string]string) map[string]etcd.MemberStatus { return nil }
		}, command.ExitRefused, "etcd does not serve as a voter"},
		"no backup can be taken": {func(_ *three, w *workerReplacement) {
			w.old.plane.backup = backupFirst{take: func(context.Context) error { return errors.New("no room") }, out: io.Discard}
		}, command.ExitRefused, "none was taken: no room: holdfast backup now, or --without-backup"},
		"a dry run takes none": {func(_ *three, w *workerReplacement) {
			w.dryRun, w.old.plane.backup = true, backupFirst{out: io.Discard}
		}, command.ExitRefused, "backup: it is unknown whether there is a good backup"},
	} {
		s := newThree(t)
		w := s.replaces(t, s, "")
		c.change(s, w)
		err := w.run(t.Context())
		if command.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", sentence, err)
		}
		if list, _ := readRetired(t.Context(), s); len(s.members) != 3 || len(list.Value) > 0 {
			t.Errorf("%s: something was changed", sentence)
		}
	}
}

// U17: the upgrade waits for the lost host, so its replacement asks whether another control plane is on
// its way, and not whether the upgrade is over.
func TestU17_OneOfThreeIsReplacedInTheMiddleOfAnUpgrade(t *testing.T) {
	for sentence, c := range map[string]struct {
		planes  int
		step    parachute.Step // of cp-2, which runs the new release
		raised  bool
		members int
		says    string // empty for a replacement that ends
	}{
		"both others are at rest":               {3, parachute.Accepted, true, 3, ""},
		"one of them is on its way":             {3, parachute.Proving, true, 3, "cp-2 is on its way to another release (proving)"},
		"an operator of before has not counted": {0, parachute.Accepted, true, 3, "an operator of an earlier release"},
		"one keeps the former level":            {3, parachute.Accepted, false, 2, "not yet: waits for the upgrade: until the commit cp-2 behaves as the former minor release"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newThree(t)
			text, err := annotation.Encode(annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true, Planes: c.planes})
			put(t, err)
			put(t, s.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, Data: map[string]string{annotation.RecordKey: text},
			}))
			for name, h := range map[string]annotation.Host{"cp-1": {Raised: state.Known(true)}, "cp-2": {Raised: state.Known(c.raised), Journal: parachute.Journal{Step: c.step}}} {
				h.Facts.Release = state.Known(map[string]string{"cp-1": "r1", "cp-2": "r2"}[name])
				said, err := annotation.Encode(h)
				put(t, err)
				writesNode(t, s, name, func(n *corev1.Node) { n.Annotations[annotation.HostOf] = said })
			}
			w := s.replaces(t, s, "")
			err = w.run(t.Context())
			if c.says == "" && err != nil || c.says != "" && (command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %v", sentence, err)
			}
			_, missing := os.Stat(w.joinFile)
			if joins := c.says == ""; len(s.members) != c.members || joins != (s.members[len(s.members)-1].ID == 9) || joins != (missing == nil) {
				t.Errorf("%s: members %+v, join file: %v", sentence, s.members, missing)
			}
		})
	}
}
