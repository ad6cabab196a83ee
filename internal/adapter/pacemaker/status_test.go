package pacemaker

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// The file is the output of crm_mon 2.1.5 in a lab.
func TestWhatRunsWhereIsReadFromPacemaker(t *testing.T) {
	text, err := os.ReadFile("testdata/crm_mon-healthy.xml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := crmmon.Parse(text, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	got := statusOf(c)
	for _, nodes := range got.Running {
		if len(nodes) == 2 && nodes[0] > nodes[1] {
			nodes[0], nodes[1] = nodes[1], nodes[0]
		}
	}
	want := Status{
		Nodes:  []string{"cp-1", "cp-2"},
		Online: []string{"cp-1", "cp-2"},
		Running: map[string][]string{
			"cp-1_redfish": {"cp-2"}, "cp-2_redfish": {"cp-1"}, "kubelet": {"cp-1", "cp-2"}, "etcd": {"cp-1", "cp-2"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if missing := got.Missing(want.Running); missing != nil {
		t.Error(missing)
	}
}

func TestWhatFailedDoesNotRun(t *testing.T) {
	s := statusOf(crmmon.Cluster{
		Nodes: []crmmon.Node{{Name: "a", Online: true, Pending: true}, {Name: "b"}},
		Resources: []crmmon.Resource{
			{ID: "x", Role: "Started", Failed: true, Nodes: []string{"a"}}, {ID: "y", Role: "Stopped"}, {ID: "z", Role: "Started"},
		},
		Failures: []crmmon.Failure{{Key: "x_start_0", Node: "a", Status: "error", Reason: "no BMC"}},
	})
	if len(s.Online) != 0 || len(s.Running) != 0 {
		t.Fatalf("%+v", s)
	}
	want := []string{"x does not run on a", "y does not run on b", "x_start_0 on a: error no BMC"}
	if diff := cmp.Diff(want, s.Missing(map[string][]string{"y": {"b"}, "x": {"a"}})); diff != "" {
		t.Error(diff)
	}
}

func TestWordsAreNotReadAsAStatus(t *testing.T) {
	tools(t, "crm_mon", `[ "$*" = "--one-shot --inactive --output-as=xml" ] || exit 64; echo "crm_mon: Connection to cluster failed"`)
	if s, err := ReadStatus(t.Context()); err == nil || !strings.Contains(err.Error(), "read Pacemaker's status: read Pacemaker's status") {
		t.Errorf("%+v, %v", s, err)
	}
	if err := FencingAllowed(t.Context(), "etcd"); err == nil || !strings.Contains(err.Error(), "ask whether Pacemaker is in maintenance: read Pacemaker's status") {
		t.Error(err)
	}
}

func TestAFenceThatDoesNotEndIsGivenUp(t *testing.T) {
	tools(t, "stonith_admin", `[ "$1 $2 $3" = "--reboot cp-2 --timeout=1" ] || exit 9; exec sleep 60`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := Fence(ctx, "cp-2", time.Second, false); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Error(err)
	}
}

func TestAFenceOfTheLastSecondsIsAnAnswerUnlessItHasToBeMadeAnew(t *testing.T) {
	for anew, want := range map[bool]string{false: "--reboot cp-2 --timeout=1 --tolerance=5s", true: "--reboot cp-2 --timeout=1"} {
		tools(t, "stonith_admin", `[ "$*" = "`+want+`" ]`)
		if err := Fence(t.Context(), "cp-2", time.Second, anew); err != nil {
			t.Errorf("anew %t: %v", anew, err)
		}
	}
}

func TestQuorumIsGrantedInCorosyncsWords(t *testing.T) {
	tools(t, "corosync-cmapctl", `[ "$*" = "-s quorum.cancel_wait_for_all u8 1" ]`)
	if err := GrantQuorum(t.Context()); err != nil {
		t.Error(err)
	}
	tools(t, "corosync-cmapctl", `echo "Failed to initialize the cmap API" >&2; exit 1`)
	if err := GrantQuorum(t.Context()); err == nil || !strings.Contains(err.Error(), "cmap API") {
		t.Error(err)
	}
}
