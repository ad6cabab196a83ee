package twonode

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/corosync"
)

func ring(t *testing.T, conf []byte) Corosync {
	t.Helper()
	c, err := corosync.Parse(conf)
	if err != nil {
		t.Fatal(err)
	}
	return CorosyncOf(c)
}

func recorded(t *testing.T) []byte {
	t.Helper()
	conf, err := os.ReadFile("testdata/corosync.conf")
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

func TestAHostThatIsLeftAloneIsNoHalfOfTwo(t *testing.T) {
	alone, err := Leave(recorded(t), "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	got := ring(t, alone)
	if len(got.Nodes) != 1 || got.Nodes[0].Name != "cp-2" || got.TwoNode || !strings.Contains(string(alone), "nodeid: 2") || got.Plain() != "" {
		t.Errorf("%+v\n%s", got, alone)
	}
	if again, err := Leave(alone, "cp-1"); err != nil || string(again) != string(alone) {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	if _, err := Leave(alone, "cp-2"); err == nil {
		t.Error("a file without a host was made")
	}
}

func TestAHostEntersUnderTheLowestFreeNumber(t *testing.T) {
	alone, err := Leave(recorded(t), "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	both, err := Enter(alone, Node{Name: "cp-3", Address: "10.98.0.13"})
	if err != nil {
		t.Fatal(err)
	}
	got := ring(t, both)
	if len(got.Nodes) != 2 || got.Nodes[1] != (Node{Name: "cp-3", Address: "10.98.0.13"}) || !got.TwoNode || !strings.Contains(string(both), "name: cp-3\n        nodeid: 1") {
		t.Errorf("%+v\n%s", got, both)
	}
	if again, err := Enter(both, Node{Name: "cp-3", Address: "10.98.0.13"}); err != nil || string(again) != string(both) {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	if before := ring(t, recorded(t)); before.Totem[0] != got.Totem[0] || len(before.Link) != len(got.Link) || before.Name != got.Name {
		t.Errorf("settings changed: %+v, %+v", before, got)
	}
}

func TestAHostThatLeavesAndComesBackGivesTheSameRing(t *testing.T) {
	was := ring(t, recorded(t))
	alone, err := Leave(recorded(t), "cp-2")
	if err != nil {
		t.Fatal(err)
	}
	both, err := Enter(alone, Node{Name: "cp-2", Address: "10.98.0.12"})
	if err != nil {
		t.Fatal(err)
	}
	now := ring(t, both)
	if err := now.check(was); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNotUnderstoodIsNotChanged(t *testing.T) {
	for _, conf := range []string{"", "nodelist {\n", "quorum {\n}\n", "nodelist {\n    node {\n        name: a\n        nodeid: 1\n    }\n}\n"} {
		if out, err := Enter([]byte(conf), Node{Name: "b", Address: "192.0.2.2"}); err == nil {
			t.Errorf("%q became %q", conf, out)
		}
	}
}
