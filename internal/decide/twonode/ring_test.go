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

// TestTheNumberOfAHostThatEnters: Pacemaker kept cp-2 as number 2 though it had been told to forget
// it, and cp-3 under that number stayed pending for good (test/loss, 2026-11-27).
func TestTheNumberOfAHostThatEnters(t *testing.T) {
	for what, c := range map[string]struct {
		there []int
		was   Former
		want  int
	}{
		"the first peer of a lone host":           {[]int{1}, Former{}, 2},
		"the same name":                           {[]int{1}, Former{"new", 2}, 2},
		"the same name, of the first host":        {[]int{2}, Former{"new", 1}, 1},
		"the same name, its number unknown":       {[]int{1}, Former{"new", 0}, 2},
		"another name":                            {[]int{1}, Former{"cp-2", 2}, 3},
		"another name, of the first host":         {[]int{2}, Former{"cp-1", 1}, 3},
		"another name for the third time":         {[]int{5}, Former{"cp-4", 4}, 6},
		"another name, the number not known":      {[]int{1}, Former{"cp-2", 0}, 3},
		"the same name, its number taken by hand": {[]int{2}, Former{"new", 2}, 1},
	} {
		var blocks []nodeBlock
		for _, number := range c.there {
			blocks = append(blocks, nodeBlock{name: "stays", number: number})
		}
		if got := c.was.number("new", blocks); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}

func TestAHostWithoutAFormerOneEntersUnderTheLowestFreeNumber(t *testing.T) {
	alone, err := Leave(recorded(t), "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	both, err := Enter(alone, Node{Name: "cp-3", Address: "10.98.0.13"}, Former{})
	if err != nil {
		t.Fatal(err)
	}
	got := ring(t, both)
	if len(got.Nodes) != 2 || got.Nodes[1] != (Node{Name: "cp-3", Address: "10.98.0.13"}) || !got.TwoNode || !strings.Contains(string(both), "name: cp-3\n        nodeid: 1") {
		t.Errorf("%+v\n%s", got, both)
	}
	if again, err := Enter(both, Node{Name: "cp-3", Address: "10.98.0.13"}, Former{}); err != nil || string(again) != string(both) {
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
	both, err := Enter(alone, Node{Name: "cp-2", Address: "10.98.0.12"}, Former{"cp-2", 2})
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
		if out, err := Enter([]byte(conf), Node{Name: "b", Address: "192.0.2.2"}, Former{}); err == nil {
			t.Errorf("%q became %q", conf, out)
		}
	}
}
