package resolvconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var own = Own{Server: netip.MustParseAddr("10.98.0.11"), Search: "lab.example.test"}

// body returns Prepend's output for a file, without our comments.
func body(data []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "# Holdfast:") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestTheHostsNameServerComesFirst(t *testing.T) {
	for _, c := range []struct{ name, have, want string }{
		{"an ordinary file", "search example.test\nnameserver 192.0.2.53\n", `
search lab.example.test example.test
nameserver 10.98.0.11
#holdfast# search example.test
nameserver 192.0.2.53
`},
		{"B55: no search line at all", "nameserver 192.0.2.53\n", `
search lab.example.test
nameserver 10.98.0.11
nameserver 192.0.2.53
`},
		{"B55: once, before the first of several", "nameserver 192.0.2.53\nnameserver 192.0.2.54\n", `
search lab.example.test
nameserver 10.98.0.11
nameserver 192.0.2.53
nameserver 192.0.2.54
`},
		{"three name servers count, the others are commented out", "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 2001:db8::4\n", `
search lab.example.test
nameserver 10.98.0.11
nameserver 192.0.2.1
nameserver 192.0.2.2
#holdfast# nameserver 192.0.2.3
#holdfast# nameserver 2001:db8::4
`},
		{"a name server of ours that somebody entered counts once", "nameserver 192.0.2.1\nnameserver 10.98.0.11\nnameserver 192.0.2.2\n", `
search lab.example.test
nameserver 10.98.0.11
nameserver 192.0.2.1
#holdfast# nameserver 10.98.0.11
nameserver 192.0.2.2
`},
		{"the search list is searched on, each domain once", "search a.test LAB.example.test. b.test A.test\nnameserver 192.0.2.1\n", `
search lab.example.test a.test b.test
nameserver 10.98.0.11
#holdfast# search a.test LAB.example.test. b.test A.test
nameserver 192.0.2.1
`},
		{"the last of domain and search counts", "search a.test\ndomain b.test\n", `
search lab.example.test b.test
nameserver 10.98.0.11
#holdfast# search a.test
#holdfast# domain b.test
`},
		{"name servers are not asked in turn", "options edns0 rotate timeout:1\noptions trust-ad\nnameserver 192.0.2.1\n", `
search lab.example.test
nameserver 10.98.0.11
options edns0 timeout:1
#holdfast# options edns0 rotate timeout:1
options trust-ad
nameserver 192.0.2.1
`},
		{"comments, sortlists and what nobody reads stay", "; hello\n# nameserver 192.0.2.9\nsortlist 192.0.2.0\nnameserver one.example.test\nnameserver fe80::1%eth0", `
search lab.example.test
nameserver 10.98.0.11
; hello
# nameserver 192.0.2.9
sortlist 192.0.2.0
nameserver one.example.test
nameserver fe80::1%eth0`},
		{"nothing", "", `
search lab.example.test
nameserver 10.98.0.11
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Prepend([]byte(c.have), own, Was{})
			if diff := cmp.Diff(c.want[1:], body(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if back, _, ours := Split(got); !ours || string(back) != c.have {
				t.Errorf("taken back it is %q", back)
			}
			if again := Prepend(got, own, Was{}); string(again) != string(got) {
				t.Errorf("prepended again it is %q", again)
			}
			if first, ok := First(got); !ok || first != own.Server {
				t.Errorf("the first name server is %s", first)
			}
		})
	}
}

func TestTheDomainOfTheHostsNameIsSearchedAsBefore(t *testing.T) {
	with := own
	with.Implied = "office.test"
	if got := search(lines(Prepend([]byte("nameserver 192.0.2.1\n"), with, Was{}))); !slices.Equal(got, []string{"lab.example.test", "office.test"}) {
		t.Errorf("without a search line %q is searched", got)
	}
	if got := search(lines(Prepend([]byte("search .\n"), with, Was{}))); !slices.Equal(got, []string{"lab.example.test", "."}) {
		t.Errorf("where nothing was searched %q is", got)
	}
}

func TestAnotherAddressReplacesTheFormerOne(t *testing.T) {
	const have = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
	moved := own
	moved.Server = netip.MustParseAddr("fd98::11")
	got := Prepend(Prepend([]byte(have), own, Was{}), moved, Was{})
	if want := Prepend([]byte(have), moved, Was{}); string(got) != string(want) {
		t.Errorf("got %s", got)
	}
}

func TestWhatTheFileWasIsKeptInIt(t *testing.T) {
	for _, was := range []Was{{}, {Link: "../run/NetworkManager/resolv.conf"}, {Link: "/a b\n\"c\"\xff"}, {Mode: 0o600}, {Mode: 0o755}, {Absent: true}} {
		_, got, ours := Split(Prepend([]byte("nameserver 192.0.2.1\n"), own, was))
		if !ours || got != was {
			t.Errorf("%+v came back as %+v", was, got)
		}
	}
}

func TestWhatAPersonWroteAroundOurPartStays(t *testing.T) {
	got := "# mine\n" + string(Prepend([]byte("search a.test\nnameserver 192.0.2.1\n"), own, Was{})) + "nameserver 192.0.2.9\n"
	back, _, ours := Split([]byte(got))
	if want := "# mine\nsearch a.test\nnameserver 192.0.2.1\nnameserver 192.0.2.9\n"; !ours || string(back) != want {
		t.Errorf("got %q", back)
	}
}

func TestServersAreTheSites(t *testing.T) {
	const have = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.1\nnameserver ::ffff:192.0.2.3\nnameserver 2001:db8::4\n"
	want := "[192.0.2.1:53 192.0.2.2:53 192.0.2.3:53 [2001:db8::4]:53]"
	for _, data := range [][]byte{[]byte(have), Prepend([]byte(have), own, Was{})} {
		if got := fmt.Sprint(Servers(data)); got != want {
			t.Errorf("got %s", got)
		}
	}
}

func TestDropins(t *testing.T) {
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"systemd-resolved": {Resolved(own), "[Resolve]\nDNS=\nDNS=10.98.0.11\nDomains=\nDomains=lab.example.test\n"},
		"systemd-resolved with the site's": {
			Resolved(own, []byte("[Resolve]\n#DNS=192.0.2.9\nDNS=192.0.2.1 2001:db8::1#dns.test\nDomains=a.test\n"), []byte("DNS=\nDNS = 192.0.2.2\nDomains=~.\n")),
			"[Resolve]\nDNS=\nDNS=10.98.0.11 192.0.2.2\nDomains=\nDomains=lab.example.test a.test ~.\n",
		},
		"NetworkManager":                       {NetworkManager(true), "[main]\nhostname-mode=dhcp\nrc-manager=unmanaged\n"},
		"NetworkManager that does not write":   {NetworkManager(false), "[main]\nhostname-mode=dhcp\n"},
		"resolvconf, whose record has no note": {[]byte(note + string(Record(own))), "search lab.example.test\nnameserver 10.98.0.11\n"},
	} {
		if got := strings.TrimPrefix(string(c.got), note); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// FuzzPrepend checks for every file that it can be restored byte for byte, that
// prepending again changes nothing, that our server is first, and that no more
// servers count than resolvers read.
func FuzzPrepend(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "nameserver 1.1.1.1", "search a\r\nnameserver ::1\r\n", "#holdfast# x\n", begin, begin + end, end + begin,
		"options rotate\n", "options\nsearch\ndomain\nnameserver\n", "nameserver\t1.1.1.1\nnameserver 2.2.2.2 # x\nnameserver 3.3.3.3\nnameserver 4.4.4.4",
		string(Prepend([]byte("nameserver 9.9.9.9\n"), own, Was{Link: "x"})), " nameserver 1.1.1.1\n\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range Servers(data) {
			if !s.IsValid() || s.Port() != 53 {
				t.Fatalf("%q names the server %s", data, s)
			}
		}
		original, was, _ := Split(data)
		got := Prepend(data, own, was)
		back, wasBack, ours := Split(got)
		if !ours || string(back) != string(original) || wasBack != was {
			t.Fatalf("%q became %q and came back as %q (%+v, was %+v)", data, got, back, wasBack, was)
		}
		if string(Prepend(got, own, was)) != string(got) {
			t.Fatalf("prepending %q twice is not as once", data)
		}
		if first, ok := First(got); !ok || first != own.Server {
			t.Fatalf("%q: %s is asked first", data, first)
		}
		count := 0
		for _, line := range lines(got) {
			if _, ok := server(line); ok {
				count++
			}
		}
		if count > MaxServers {
			t.Fatalf("%q: %d servers count", data, count)
		}
		if search := search(lines(got)); search[0] != own.Search {
			t.Fatalf("%q: %q is searched", data, search)
		}
	})
}
