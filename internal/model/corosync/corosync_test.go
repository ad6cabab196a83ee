package corosync

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const whole = `totem {
 version: 2
 cluster_name: pcm
 crypto_cipher: aes256
 interface {
  linknumber: 0
  knet_ping_timeout: 1000
 }
 interface {
  linknumber: 1
  knet_pong_count: 3
 }
}
# c
nodelist {
 node {
  ring1_addr: 10.1.0.1
  ring0_addr: 2001:DB8:0::1
  name: cp-1
  nodeid: 7
 }
 node {
  ring0_addr: 10.0.0.2
 }
}
quorum {
 two_node: 1
 wait_for_all: 0
}
other {
 deep {
  two_node: 0
 }
}
`

func TestLinksAndSettings(t *testing.T) {
	got, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := Conf{
		Name: "pcm", TwoNode: true, WaitsNot: true,
		Nodes:  []Node{{"cp-1", []string{"2001:DB8:0::1", "10.1.0.1"}, 7}, {"10.0.0.2", []string{"10.0.0.2"}, 0}},
		Totem:  []Setting{{"version", "2"}, {"cluster_name", "pcm"}, {"crypto_cipher", "aes256"}},
		Crypto: []Setting{{"cipher", "aes256"}},
		Link:   []Setting{{"linknumber", "0"}, {"ping_timeout", "1000"}, {"pong_count", "3"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if none, err := Parse(nil); err != nil || !cmp.Equal(none, Conf{}) {
		t.Errorf("no file: %+v, %v", none, err)
	}
}

// Corosync keeps the last value that it reads under a name.
func TestTheLastOfASettingThatStandsTwiceCounts(t *testing.T) {
	for name, text := range map[string]string{
		"in a section":    strings.Replace(whole, "aes256\n", "aes256\n crypto_cipher: none\n cluster_name: theirs\n", 1),
		"in a second one": whole + "totem {\n crypto_cipher: none\n cluster_name: theirs\n}\n",
	} {
		got, err := Parse([]byte(text))
		if err != nil || got.Name != "theirs" || !cmp.Equal(got.Crypto, []Setting{{"cipher", "none"}}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestWhatIsNotAWholeFileIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"quorum {\n two_node: 1\n":      "section quorum has no end",
		"}\n":                           "line 1: a section ends",
		"nonsense\n":                    "neither a setting nor a section",
		strings.Repeat("a {\n", 20):     "more than 8 deep",
		strings.Repeat("#\n", MaxBytes): "bytes, more than",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		for _, n := range c.Nodes {
			if err != nil || n.Name == "" && len(n.Addresses) > 0 {
				t.Errorf("%q: %+v, %v", text, n, err)
			}
		}
	})
}
