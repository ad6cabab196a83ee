package fence

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestOptionsComeAsLinesOrAsArguments(t *testing.T) {
	want := options{action: "off", target: "cp-1", powerTimeout: 7 * time.Second}
	for name, c := range map[string]struct {
		in   string
		args []string
	}{
		"lines":            {"# from Pacemaker\naction=off\n\nplug=cp-1\nnodename=cp-1\nunknown=x\npower_timeout=7\n", nil},
		"the old name":     {"action=off\nport=cp-1\npower-timeout=7s\n", nil},
		"only the node":    {"action=off\nnodename=cp-1\npower_timeout=7\n", nil},
		"short arguments":  {"", []string{"-o", "off", "-n", "cp-1", "--power-timeout", "7"}},
		"long arguments":   {"plug=cp-2\n", []string{"--action=off", "--plug=cp-1", "--power_timeout=7"}},
		"the delay is not": {"action=off\nplug=cp-1\ndelay=100\npower_timeout=7\n", nil},
	} {
		got, err := parse(strings.NewReader(c.in), c.args)
		want.byHand = c.args != nil
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestAFenceWithoutActionIsAReboot(t *testing.T) {
	got, err := parse(strings.NewReader("plug=cp-1\n"), nil)
	if err != nil || got.action != "reboot" || got.powerTimeout != defaultPowerTimeout {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatIsNotClearIsNotDone(t *testing.T) {
	for in, says := range map[string]string{
		"action=off\n":                                          "a node name is required",
		"action=off\nplug=cp-1\nnodename=cp-2\n":                "the target is ambiguous",
		"action=explode\nplug=cp-1\n":                           `action "explode"`,
		"action=off\nplug=cp-1\npower_timeout=soon\n":           `power_timeout "soon"`,
		"action=off\nplug=cp-1\npower_timeout=0\n":              `power_timeout "0"`,
		"action=explode\npower_timeout=x\nplug=a\nport=b\n":     "port is",
		"action=explode\npower_timeout=-1\nplug=a\nport=a\n":    "power_timeout",
		"action=monitor\n" + strings.Repeat("x", 70_000) + "\n": "read options",
	} {
		if _, err := parse(strings.NewReader(in), nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v", in, err)
		}
	}
	for _, args := range [][]string{{"--password=x"}, {"-o"}, {"off"}, {"-x", "y"}} {
		if _, err := parse(strings.NewReader(""), args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

func TestTheMetadataAreTheApprovedText(t *testing.T) {
	golden.Check(t, "metadata.xml", []byte(metadata()))
}

// TestTheMetadataAreWhatPacemakerReads decodes the parts that Pacemaker and pcs
// read.
func TestTheMetadataAreWhatPacemakerReads(t *testing.T) {
	var out bytes.Buffer
	if code := Run(t.Context(), command.Streams{In: strings.NewReader("action=metadata\n"), Out: &out, Err: &out}, nil); code != exitOK {
		t.Fatalf("exit %d: %s", code, out.String())
	}
	var m struct {
		Name       string `xml:"name,attr"`
		Parameters []struct {
			Name      string `xml:"name,attr"`
			Required  string `xml:"required,attr"`
			Shortdesc string `xml:"shortdesc"`
			Content   struct {
				Type string `xml:"type,attr"`
			} `xml:"content"`
		} `xml:"parameters>parameter"`
		Actions []struct {
			Name      string `xml:"name,attr"`
			Automatic string `xml:"automatic,attr"`
		} `xml:"actions>action"`
	}
	if err := xml.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if m.Name != "fence_holdfast" || len(m.Parameters) != len(optionTable) || len(m.Actions) != len(actions) {
		t.Errorf("%+v", m)
	}
	for i, p := range m.Parameters {
		if o := optionTable[i]; p.Name != o.name || p.Shortdesc != o.doc || p.Content.Type != o.kind {
			t.Errorf("%+v is not %+v", p, o)
		}
		if strings.Contains(p.Name, "pass") || strings.Contains(p.Name, "user") {
			t.Errorf("%s would be kept in the CIB", p.Name)
		}
	}
	for _, a := range m.Actions {
		if a.Name == "on" && a.Automatic != "0" {
			t.Error("Pacemaker would switch hosts on by itself")
		}
	}
}
