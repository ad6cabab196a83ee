package twonode

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func devices() []state.FencingDevice {
	return []state.FencingDevice{
		{Target: "cp-1", Address: "https://10.99.0.111/redfish/v1/Systems/1", Username: "fencer", Password: "s3cret-one"},
		{Target: "cp-2", Address: "https://10.99.0.112/redfish/v1/Systems/1", Username: "fencer", Password: "s3cret-two"},
	}
}

func TestAGoodInputIsGoodForEveryStep(t *testing.T) {
	in := site()
	in.Fencing, in.Manifest = devices(), "kind: Pod\n"
	for _, step := range []Step{Auth, Fencing, Setup, Manifest, HandOver, Finish} {
		if err := in.Validate(step); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	if in.Peer() != (Node{"cp-2", "10.98.0.12"}) {
		t.Errorf("the peer is %+v", in.Peer())
	}
}

func TestEveryMistakeOfAnInputIsToldAtOnceWithItsField(t *testing.T) {
	in := Input{
		Self:  "cp-9",
		Nodes: []Node{{"cp-1", "10.0.0.1"}, {"CP;2", "10.0.0.x"}},
		Token: "short",
		Fencing: []state.FencingDevice{
			{Target: "cp-9", Address: "https://10.0.0.9/redfish/v1/Systems/1", Username: "a", Password: "hunter22"},
			{Target: "cp-1", Address: "ftp://x", Delay: -1},
		},
	}
	for step, want := range map[Step][]string{ //nolint:exhaustive // the others check nothing more
		Auth:     {"cluster:", "nodes[1].name:", "nodes[1].address:", "self:", "token:"},
		Fencing:  {"nodes[1].name:", "fencing[0].target:", "fencing[1].address:", "fencing[1]: username", "fencing[1].delay:", "0 devices switch CP;2"},
		Manifest: {"nodes[1].name:", "manifest:"},
	} {
		err := in.Validate(step)
		for _, field := range want {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %q is not in:\n%v", step, field, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: the error quotes a password", step)
		}
	}
}

func TestAddressesThatThePeerCannotReachAreRefused(t *testing.T) {
	for _, c := range []struct{ first, second, problem string }{
		{"10.0.0.1", "10.0.0.2", ""},
		{"fd98::1", "fd98::2", ""},
		{"10.0.0.1", "10.0.0.1", "already the address of nodes[0]"},
		{"fd98::1", "fd98:0::1", "already the address of nodes[0]"},
		{"10.0.0.1", "fd98::2", "not of the same address family"},
		{"127.0.0.1", "10.0.0.2", "cannot reach 127.0.0.1"},
		{"10.0.0.1", "fe80::1%eth0", "cannot reach"},
		{"10.0.0.1", "::ffff:10.0.0.2", "cannot reach"},
		{"10.0.0.1", "10.0.0.2/24", "not an IP address"},
	} {
		in := site()
		in.Nodes = []Node{{"cp-1", c.first}, {"cp-2", c.second}}
		err := in.Validate(Setup)
		if (err != nil) != (c.problem != "") || (err != nil && !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s and %s: %v, want %q", c.first, c.second, err, c.problem)
		}
	}
}

func TestThreeNodesAreNotTwo(t *testing.T) {
	in := site()
	in.Nodes = append(in.Nodes, Node{"cp-3", "10.98.0.13"})
	if err := in.Validate(Setup); err == nil || !strings.Contains(err.Error(), "there are 3, must be two") {
		t.Error(err)
	}
}

func TestANodesNameCanBeNothingButAName(t *testing.T) {
	for name, good := range map[string]bool{
		"cp-1": true, "a": true, "cp-1.site.example": true, "10": true,
		"": false, "CP": false, "-a": false, "a-": false, "a..b": false, "a/b": false, "../b": false, "a b": false, "a;b": false, "a=b": false,
		strings.Repeat("a", 254): false,
	} {
		if got := isNodeName(name); got != good {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestACorosyncNameIsOneThatPcsTakesAndItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"pcm", "site-1", "fifteen-letters", "sixteen-letters-", "sixteen-letters_", "a.b", "a-b", "long-name-of-a-site-in-a-town-1", "long-name-of-a-site-in-a-town-2"} {
		got := CorosyncName(name)
		if len(got) > maxClusterName || strings.ContainsAny(got, ". ") || seen[got] != "" {
			t.Errorf("%s becomes %s, as %q does", name, got, seen[got])
		}
		seen[got] = name
	}
	if CorosyncName("site-1") != "site-1" {
		t.Error("a short name is changed")
	}
}

func TestThePeerIsTheOtherOneOfTheTwo(t *testing.T) {
	for self, peer := range map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"} {
		in := site()
		in.Self = self
		if got := in.Peer().Name; got != peer {
			t.Errorf("of %s: %s", self, got)
		}
	}
}

// mistakes returns how many mistakes an input has, and their text.
func mistakes(in Input, step Step) (int, string) {
	err := in.Validate(step)
	if err == nil {
		return 0, ""
	}
	return strings.Count(err.Error(), "\n") + 1, err.Error()
}

func TestAMistakeIsToldOnceAndAloneAndNoMistakeIsToldWhereThereIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		step   Step
		change func(*Input)
		want   string
	}{
		"two hosts of one name":     {Setup, func(in *Input) { in.Nodes[0].Name = "cp-1" }, `nodes[1].name: "cp-1" is already the name of nodes[0]`},
		"the first address is none": {Setup, func(in *Input) { in.Nodes[0].Address = "x" }, `nodes[0].address: "x" is not an IP address`},
		"the second one is none":    {Setup, func(in *Input) { in.Nodes[1].Address = "x" }, `nodes[1].address: "x" is not an IP address`},
		"an address of nobody":      {Setup, func(in *Input) { in.Nodes[0].Address = "0.0.0.0" }, "nodes[0].address: the peer cannot reach 0.0.0.0"},
		"an address of a group":     {Setup, func(in *Input) { in.Nodes[0].Address = "224.0.0.7" }, "nodes[0].address: the peer cannot reach 224.0.0.7"},
		"a token of two lines":      {Auth, func(in *Input) { in.Token = "a-token-of-the-tests\n2" }, "token: must be a single line"},
		"a token of 15 bytes":       {Auth, func(in *Input) { in.Token = "fifteen-letters" }, "token: is 15 bytes long, must have at least 16"},
		"a token of 16 bytes":       {Auth, func(in *Input) { in.Token = "sixteen-letters-" }, ""},
		"no name of an account":     {Fencing, func(in *Input) { in.Fencing[0].Username = "" }, "fencing[0]: username and password are required"},
		"no password":               {Fencing, func(in *Input) { in.Fencing[1].Password = "" }, "fencing[1]: username and password are required"},
		"a delay of nothing":        {Fencing, func(in *Input) { in.Fencing[1].Delay = 0 }, ""},
	} {
		in := site()
		in.Fencing = devices()
		c.change(&in)
		n, text := mistakes(in, c.step)
		if text != c.want || (n > 0) != (c.want != "") {
			t.Errorf("%s: %d mistakes: %s", name, n, text)
		}
	}
}

func TestANodesNameMayHave253Characters(t *testing.T) {
	label := strings.Repeat("a", 62) + "."
	if name := strings.Repeat(label, 4) + "a"; len(name) != 253 || !isNodeName(name) {
		t.Errorf("%d characters", len(name))
	}
}
