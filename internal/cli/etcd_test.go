package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

const mib = 1 << 20

// spacious is what a host says that has something to gain.
func spacious() etcdspace.Summary {
	return etcdspace.Summary{
		At: time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC), Size: 400 * mib, InUse: 100 * mib, Quota: 2048 * mib, Voters: 1,
		Verdict: etcdspace.Verdict{Rule: "alone", Why: "cp-1 is the only member, so a person chooses the time: 300 MiB of 400 MiB are free"},
		IfAsked: etcdspace.Verdict{Step: etcdspace.Defragment, Host: "cp-1", Rule: "alone-asked", Why: "a person asked: 300 MiB of 400 MiB are free"},
	}
}

// saysSpace has a host say something at its node.
func saysSpace(t *testing.T, c client.Client, name string, s etcdspace.Summary) {
	t.Helper()
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	writesNode(t, c, name, func(n *corev1.Node) { n.Annotations[etcdspace.Annotation] = text })
}

// typed runs a command with an answer on its standard input.
func typed(ctx context.Context, c client.Client, f defragmentFlags, in string) (code int, text string) {
	var out bytes.Buffer
	f.timeout = max(f.timeout, time.Minute)
	err := f.run(ctx, c, Streams{In: strings.NewReader(in), Out: &out, Err: &out})
	if err == nil {
		return command.ExitOK, out.String()
	}
	code = command.ExitFailed
	if coder, is := errors.AsType[*command.Coded](err); is {
		code = coder.Code
	} else if _, usage := errors.AsType[*UsageError](err); usage {
		code = command.ExitUsage
	}
	return code, out.String() + err.Error()
}

// answersWish has the agent of cp-1 tell that it begins, and answer after a time.
func answersWish(t *testing.T, c client.Client, after time.Duration, a etcdspace.Answer) {
	t.Helper()
	for nodeOf(t, c, "cp-1").Annotations[etcdspace.WantedOf] == "" {
		time.Sleep(100 * time.Millisecond)
	}
	wish := nodeOf(t, c, "cp-1").Annotations[etcdspace.WantedOf]
	s := spacious()
	s.Wish, s.Verdict = wish, etcdspace.Verdict{Rule: "backup", Why: "cp-1 takes a backup"}
	saysSpace(t, c, "cp-1", s)
	time.Sleep(after)
	s = spacious()
	s.Asked, s.Answer, s.Verdict.Rule = wish, a, "rest"
	saysSpace(t, c, "cp-1", s)
}

func TestADefragmentationIsAWishThatIsFollowed(t *testing.T) {
	done := etcdspace.Answer{Done: etcdspace.Done{At: time.Now(), Before: 400 * mib, After: 100 * mib, Took: 1200 * time.Millisecond}}
	for name, c := range map[string]struct {
		flags  defragmentFlags
		answer etcdspace.Answer
		code   int
		says   []string
	}{
		"it is done":    {defragmentFlags{yes: true}, done, command.ExitOK, []string{"waits: cp-1 takes a backup", "etcd on cp-1 is defragmented, from 400 MiB to 100 MiB in 1.2s"}},
		"for a program": {defragmentFlags{yes: true, hostFlags: hostFlags{output: "json"}}, done, command.ExitOK, []string{`"host": "cp-1"`, `"after": 104857600`}},
		"it failed":     {defragmentFlags{yes: true}, etcdspace.Answer{Failed: "no room"}, command.ExitFailed, []string{"the defragmentation of cp-1 failed: no room", "journalctl"}},
		"nothing to do": {defragmentFlags{yes: true}, etcdspace.Answer{Refused: "no member has enough to gain"}, command.ExitRefused, []string{"cp-1 was not defragmented: no member has enough to gain"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				site := hostSite(t)
				saysSpace(t, site, "cp-1", spacious())
				go answersWish(t, site, 10*time.Second, c.answer)
				code, text := typed(t.Context(), site, c.flags, "")
				if code != c.code {
					t.Errorf("exit code %d, want %d: %s", code, c.code, text)
				}
				for _, want := range c.says {
					if !strings.Contains(text, want) {
						t.Errorf("%q lacks %q", text, want)
					}
				}
			})
		})
	}
}

func TestTheOnlyMemberIsDefragmentedAfterAYesAlone(t *testing.T) {
	c := hostSite(t)
	saysSpace(t, c, "cp-1", spacious())
	wished := func() bool { return nodeOf(t, c, "cp-1").Annotations[etcdspace.WantedOf] != "" }
	const warning = "etcd on cp-1 is the only member. The API does not answer while it is defragmented"
	for in, want := range map[string]int{"no\n": command.ExitNotConfirmed, "": command.ExitNotConfirmed} {
		if code, text := typed(t.Context(), c, defragmentFlags{}, in); code != want || !strings.Contains(text, warning) || wished() {
			t.Errorf("%q: exit code %d, wished %t: %s", in, code, wished(), text)
		}
	}
	if code, text := typed(t.Context(), c, defragmentFlags{dryRun: true}, ""); code != command.ExitOK || !strings.Contains(text, "cp-1 would be defragmented now (as of 2026-11-26 03:00:00Z): a person asked: 300 MiB of 400 MiB are free\n"+warning) || wished() {
		t.Errorf("exit code %d, wished %t: %s", code, wished(), text)
	}
	if code, text := typed(t.Context(), c, defragmentFlags{noWait: true}, "yes\n"); code != command.ExitOK || !wished() {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestAMemberOfSeveralIsDefragmentedWithoutAQuestion(t *testing.T) {
	c := hostSite(t)
	s := spacious()
	s.Voters = 3
	saysSpace(t, c, "cp-1", s)
	if code, text := typed(t.Context(), c, defragmentFlags{noWait: true}, ""); code != command.ExitOK || strings.Contains(text, "only member") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestWhatIsInTheWayOfADefragmentation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hostSite(t)
		if code, text := typed(t.Context(), c, defragmentFlags{}, ""); code != command.ExitRefused || !strings.Contains(text, "cp-1: its agent has reported nothing") {
			t.Errorf("exit code %d: %s", code, text)
		}
		if code, text := typed(t.Context(), c, defragmentFlags{host: "cp-1"}, ""); code != command.ExitRefused {
			t.Errorf("exit code %d: %s", code, text)
		}
		if code, text := typed(t.Context(), c, defragmentFlags{host: "w-1"}, ""); code != command.ExitUsage || !strings.Contains(text, "--host") {
			t.Errorf("exit code %d: %s", code, text)
		}
		s := spacious()
		s.IfAsked = etcdspace.Verdict{Rule: "rest", Why: "no member has enough to gain"}
		saysSpace(t, c, "cp-1", s)
		if code, text := typed(t.Context(), c, defragmentFlags{}, ""); code != command.ExitRefused || !strings.Contains(text, "cp-1: no member has enough to gain") {
			t.Errorf("exit code %d: %s", code, text)
		}
		if code, text := typed(t.Context(), c, defragmentFlags{host: "cp-1", dryRun: true}, ""); code != command.ExitAttention || !strings.Contains(text, "cp-1 would not be defragmented") {
			t.Errorf("exit code %d: %s", code, text)
		}
		s.IfAsked = etcdspace.Verdict{Rule: "backup", Why: "cp-1 takes a backup"}
		saysSpace(t, c, "cp-1", s)
		if code, text := typed(t.Context(), c, defragmentFlags{dryRun: true}, ""); code != command.ExitAttention || !strings.Contains(text, "cp-1 would wait") {
			t.Errorf("exit code %d: %s", code, text)
		}
		s.Verdict = s.IfAsked
		saysSpace(t, c, "cp-1", s)
		if code, text := typed(t.Context(), c, defragmentFlags{yes: true}, ""); code != command.ExitAttention || !strings.Contains(text, "cp-1 is not defragmented after 1m0s: has not heard of it yet") {
			t.Errorf("exit code %d: %s", code, text)
		}
		go func() {
			time.Sleep(5 * time.Second)
			writesNode(t, c, "cp-1", func(n *corev1.Node) { n.Annotations[etcdspace.WantedOf] = "another" })
		}()
		if code, text := typed(t.Context(), c, defragmentFlags{yes: true}, ""); code != command.ExitFailed || !strings.Contains(text, "somebody else asked cp-1") {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
}

func TestAnEtcdThatIsFullTakesNoWishAndTheCommandSaysWhatToType(t *testing.T) {
	site := hostSite(t)
	saysSpace(t, site, "cp-1", spacious())
	full := interceptor.NewClient(site, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return errors.New("etcdserver: mvcc: database space exceeded")
	}})
	code, text := typed(t.Context(), full, defragmentFlags{yes: true}, "")
	if code != command.ExitFailed || !strings.Contains(text, "ssh cp-1 sudo touch "+state.EtcdDefragmentWantedPath) || !strings.Contains(text, "sudo holdfast etcd status") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestTheSpaceOfEtcdIsListed(t *testing.T) {
	now := time.Date(2026, 11, 26, 6, 0, 0, 0, time.UTC)
	one, two := spacious(), spacious()
	one.Verdict = etcdspace.Verdict{Step: etcdspace.Defragment, Host: "cp-2", Rule: "follower"}
	two.Verdict, two.Size, two.Done = one.Verdict, 1700*mib, etcdspace.Done{At: now.Add(-3 * time.Hour)}
	full := two
	full.NoSpace = []string{"cp-2"}
	stuck := full
	stuck.Verdict = etcdspace.Verdict{Rule: "nothing-to-gain", Why: "objects must be deleted first"}
	failed := spacious()
	failed.GivenUp, failed.Failed, failed.Error = true, 3, "no room"
	host := func(name string, s etcdspace.Summary) etcdspace.Host { return etcdspace.Host{Name: name, Summary: s} }
	var out bytes.Buffer
	for _, c := range []struct {
		name, format string
		hosts        []etcdspace.Host
		code         int
	}{
		{"one member", "text", []etcdspace.Host{host("cp-1", spacious())}, command.ExitOK},
		{"two, of which one is short and mended", "wide", []etcdspace.Host{host("cp-1", one), host("cp-2", two)}, command.ExitAttention},
		{"full, and mended", "text", []etcdspace.Host{host("cp-1", one), host("cp-2", full)}, command.ExitRecovers},
		{"full, and stuck", "text", []etcdspace.Host{host("cp-2", stuck)}, command.ExitPerson},
		{"it gave up", "text", []etcdspace.Host{host("cp-1", failed)}, command.ExitAttention},
		{"nobody says anything", "text", []etcdspace.Host{{Name: "cp-1", Silent: "its agent has reported nothing about the space of etcd"}}, command.ExitUnknown},
		{"for a program", "json", []etcdspace.Host{host("cp-1", spacious())}, command.ExitOK},
	} {
		out.WriteString("# " + c.name + "\n")
		err := printSpaces(&out, c.format, now, c.hosts)
		code := command.ExitOK
		if coder, is := errors.AsType[*command.Coded](err); is {
			code = coder.Code
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
		out.WriteString("\n")
	}
	golden.Check(t, "etcd-status.txt", out.Bytes())
}

func TestOnlyControlPlanesAreAskedAboutTheSpaceOfEtcd(t *testing.T) {
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	c := hostSite(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-2", Labels: map[string]string{state.LabelControlPlane: ""}}, Status: ready})
	saysSpace(t, c, "cp-1", spacious())
	site, err := gatherSpaces(t.Context(), c)
	if err != nil || len(site.Hosts) != 2 || site.Hosts[0].Size != 400*mib || site.Hosts[1].Silent == "" || !site.Ready["cp-1"] {
		t.Errorf("%+v, %v", site, err)
	}
}
