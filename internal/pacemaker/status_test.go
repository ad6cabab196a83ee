package pacemaker

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The file is what crm_mon 2.1.5 printed in a lab.
func TestWhatRunsWhereIsReadFromPacemaker(t *testing.T) {
	text, err := os.ReadFile("testdata/crm_mon-healthy.xml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseStatus(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, nodes := range got.Running {
		if len(nodes) == 2 && nodes[0] > nodes[1] {
			nodes[0], nodes[1] = nodes[1], nodes[0]
		}
	}
	want := Status{
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
	const text = `<pacemaker-result><nodes><node name="a" online="true" pending="true"/><node name="b" online="false" pending="false"/></nodes>
<resources><resource id="x" role="Started" failed="true"><node name="a"/></resource><resource id="y" role="Stopped" failed="false"/></resources>
<failures><failure op_key="x_start_0" node="a" exitstatus="error" exitreason="no BMC"/></failures></pacemaker-result>`
	s, err := parseStatus([]byte(text))
	if err != nil || len(s.Online) != 0 || len(s.Running) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	want := []string{"x does not run on a", "y does not run on b", "x_start_0 on a: error no BMC"}
	if diff := cmp.Diff(want, s.Missing(map[string][]string{"y": {"b"}, "x": {"a"}})); diff != "" {
		t.Error(diff)
	}
	if _, err := parseStatus([]byte("crm_mon: Connection to cluster failed")); err == nil {
		t.Error("words were read as a status")
	}
}

func TestAFenceThatDoesNotEndIsGivenUp(t *testing.T) {
	tools(t, "stonith_admin", `[ "$1 $2 $3" = "--reboot cp-2 --timeout=1" ] || exit 9; exec sleep 60`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := Fence(ctx, "cp-2", time.Second); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Error(err)
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
