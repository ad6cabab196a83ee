package pacemaker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

type fact = state.Fact[state.Membership]

func read(t *testing.T, text string) []fact {
	t.Helper()
	var got []fact
	r := &reader{changed: func(f fact) { got = append(got, f) }}
	for _, b := range []byte(text) { // a pipe may split the text anywhere
		if _, err := r.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// The file is the output of corosync 3.1.7 while cp-2 was cut off and came back.
func TestEachReportOfCorosyncIsOneMembership(t *testing.T) {
	text, err := os.ReadFile("testdata/quorumtool-lost-and-back.txt")
	if err != nil {
		t.Fatal(err)
	}
	both := []string{"cp-1", "cp-2"}
	want := []fact{
		state.Known(state.Membership{Ring: 0x9<<16 | 1, Members: both, Quorate: true}),
		state.Known(state.Membership{Ring: 0xd<<16 | 1, Members: both[:1], Quorate: true}),
		state.Known(state.Membership{Ring: 0x12<<16 | 1, Members: both, Quorate: true}),
	}
	if diff := cmp.Diff(want, read(t, string(text))); diff != "" {
		t.Error(diff)
	}
}

func TestAReportThatMakesNoSenseIsUnknown(t *testing.T) {
	const good = "Quorum information\nRing ID:          1.d\nQuorate:          No\n\nMembership information\n    Nodeid      Votes Name\n         1          1 cp-1 (local)\n\n"
	if got := read(t, good); len(got) != 1 || !got[0].Known || got[0].Value.Quorate {
		t.Fatalf("got %+v", got)
	}
	for name, text := range map[string]string{
		"no ring":        "Quorum information\nQuorate: Yes\nNodeid Votes Name\n1 1 cp-1\n\n",
		"ring of words":  "Quorum information\nRing ID: x.y\nQuorate: Yes\nNodeid Votes Name\n1 1 cp-1\n\n",
		"no quorum line": "Quorum information\nRing ID: 1.d\nNodeid Votes Name\n1 1 cp-1\n\n",
		"nobody":         "Quorum information\nRing ID: 1.d\nQuorate: Yes\nNodeid Votes Name\n\n",
		"another locale": "Quorum information\nRing ID: 1.d\nQuorate: Oui\nNodeid Votes Name\n1 1 cp-1\n\n",
	} {
		if got := read(t, text); !slices.Equal(known(got), []bool{false}) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := read(t, good[:len(good)-1]); len(got) != 0 {
		t.Errorf("half a report was told: %+v", got)
	}
}

func known(facts []fact) []bool {
	var out []bool
	for _, f := range facts {
		out = append(out, f.Known)
	}
	return out
}

func TestTwoHalvesOfASplitHaveDifferentRings(t *testing.T) {
	seen := map[uint64]string{}
	for _, id := range []string{"1.a", "2.a", "1.b", "2.b", "1.1a", "11.a", "1.ffffffffffff"} {
		n, err := ringNumber(id)
		if err != nil || seen[n] != "" {
			t.Errorf("%s: %d, %v, as %q", id, n, err, seen[n])
		}
		seen[n] = id
	}
	for _, id := range []string{"", "1", ".", "1.", ".a", "70000.a", "1.1000000000000", "1.-1", "a.1"} {
		if n, err := ringNumber(id); err == nil {
			t.Errorf("%q is %d", id, n)
		}
	}
	later, _ := ringNumber("1.10")
	if before, _ := ringNumber("2.f"); before >= later {
		t.Error("a later ring has a smaller number")
	}
}

func TestWhileCorosyncIsDownTheMembershipIsUnknown(t *testing.T) {
	stop := errors.New("seen enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var got []bool
	err := watch(ctx, host.Command("cat", filepath.Join("testdata", "quorumtool-lost-and-back.txt")), func(f fact) {
		got = append(got, f.Known)
		if len(got) == 8 { // two runs of the tool
			cancel(stop)
		}
	})
	want := []bool{true, true, true, false, true, true, true, false}
	if !errors.Is(err, stop) || !slices.Equal(got, want) {
		t.Errorf("%v, ended by %v", got, err)
	}
}

func TestQuorumThatWasGrantedIsNoticedAndNothingIsToldTwice(t *testing.T) {
	// The tool does not report the grant to a connected child; the next child sees it.
	state := filepath.Join(t.TempDir(), "granted")
	script := `test -e ` + state + ` && q=Yes || q=No
touch ` + state + `.$$; test "$(ls ` + state + `.* | wc -l)" -ge 3 && touch ` + state + `
printf 'Quorum information\nRing ID: 2.d\nQuorate: %s\nNodeid Votes Name\n2 1 cp-2 (local)\n\n' $q
exec sleep 60`
	stop := errors.New("seen enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var got []bool
	err := watch(ctx, host.Command("sh", "-c", script), func(f fact) {
		got = append(got, f.Known, f.Value.Quorate)
		if f.Value.Quorate {
			cancel(stop)
		}
	})
	if !errors.Is(err, stop) || !slices.Equal(got, []bool{true, false, true, true}) {
		t.Errorf("%v, ended by %v", got, err)
	}
}

func TestAReportThatMixesTwoMembershipsIsAskedAgain(t *testing.T) {
	// The first child is connected when the membership changes. It reports a mixture
	// and then nothing more; the next child reports the truth.
	first := filepath.Join(t.TempDir(), "first")
	script := `report() { printf 'Quorum information\nRing ID: %s\nQuorate: Yes\nNodeid Votes Name\n%s\n\n' "$1" "$2"; }
if test -e ` + first + `; then report 1.b5 "$(printf '1 1 cp-1\n2 1 cp-2 (local)')"; else touch ` + first + `; report 1.b1 '2 1 cp-2 (local)'; fi
exec sleep 60`
	stop := errors.New("seen enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var last state.Membership
	err := watch(ctx, host.Command("sh", "-c", script), func(f fact) {
		if last = f.Value; len(last.Members) == 2 {
			cancel(stop)
		}
	})
	if !errors.Is(err, stop) || last.Ring != 0xb5<<16|1 {
		t.Errorf("%+v, ended by %v", last, err)
	}
}

func TestAPeersAttributeIsReadWhateverItHolds(t *testing.T) {
	for _, c := range []struct{ out, want string }{
		{`name="holdfast-etcd" host="cp-2" value="e30="` + "\n", "e30="},
		{`name="holdfast-etcd" host="cp-1" value="AA=="` + "\n" + `name="holdfast-etcd" host="cp-2" value="BB=="` + "\n", "BB=="},
		{`name="holdfast-etcd" host="cp-2" value=""` + "\n", ""},
		{`name="holdfast-etcd" host="cp-22" value="AA=="` + "\n", ""},
		{"", ""},
	} {
		if got, err := attributeValue(c.out, "cp-2"); err != nil || got != c.want {
			t.Errorf("%q: got %q, %v", c.out, got, err)
		}
	}
	if got, err := attributeValue(`name="x" host="cp-2" value="torn`, "cp-2"); err == nil {
		t.Errorf("a torn line was read as %q", got)
	}
}

// tools puts a script in place of one of Pacemaker's tools, first in the search path.
func tools(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestAnAttributeComesBackAsItWasPublished(t *testing.T) {
	store := filepath.Join(t.TempDir(), "value")
	// As attrd_updater 2.1.5: --private --name N --update V; --name N --query --node H.
	tools(t, "attrd_updater", `case $1 in
--private) printf %s "$5" > `+store+` ;;
--name) printf 'name="%s" host="%s" value="%s"\n' "$2" "$5" "$(cat `+store+`)" ;;
esac`)
	const value = `{"a":"it's \"quoted\" < & >","b":[1,2]}` + "\n"
	if err := Publish(t.Context(), "holdfast-etcd", value); err != nil {
		t.Fatal(err)
	}
	got, found, err := PrivateAttribute(t.Context(), "holdfast-etcd", "cp-2")
	if got != value || !found || err != nil {
		t.Errorf("got %q, %v, %v", got, found, err)
	}
}

func TestAnErrorOfPublishingLeavesTheValueOut(t *testing.T) {
	tools(t, "attrd_updater", `echo "could not update $3=$5" >&2; exit 102`)
	err := Publish(t.Context(), "holdfast-etcd", "a statement of many bytes")
	if err == nil || strings.Contains(err.Error(), "YSBzdGF0") || !strings.Contains(err.Error(), "could not update holdfast-etcd=…") || host.ExitCode(err) != 102 {
		t.Errorf("got %v", err)
	}
}

func TestNoAttributeIsNoErrorAndNoAnswerIsOne(t *testing.T) {
	tools(t, "attrd_updater", `echo "attribute does not exist" >&2; exit 78`)
	if _, found, err := PrivateAttribute(t.Context(), "holdfast-etcd", "cp-2"); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	tools(t, "attrd_updater", `echo "not connected" >&2; exit 102`)
	if _, _, err := PrivateAttribute(t.Context(), "holdfast-etcd", "cp-2"); err == nil {
		t.Error("a daemon that does not answer was taken for a node without the attribute")
	}
}

func TestANodeSaysThatItStopsBeforeItDoes(t *testing.T) {
	for answer, want := range map[string]bool{
		`echo 'name="shutdown" host="cp-2" value="1795174076"'`: true,
		`echo 'name="shutdown" host="cp-2" value="0"'`:          false,
		`echo 'name="shutdown" host="cp-2" value=""'`:           false,
		`exit 105`: false,
	} {
		tools(t, "attrd_updater", answer)
		if got, err := ShutdownRequested(t.Context(), "cp-2"); got != want || err != nil {
			t.Errorf("%s: %t, %v", answer, got, err)
		}
	}
	tools(t, "attrd_updater", "exit 1")
	if _, err := ShutdownRequested(t.Context(), "cp-2"); err == nil {
		t.Error("no answer is not no")
	}
}
