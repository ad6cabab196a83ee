package cluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
)

const soaLine = "demo.example.org. 5 IN SOA api-int.demo.example.org. hostmaster.demo.example.org. 7 60 60 3600 1\n"

// dual is a zone of both families; other zones are made from it.
const dual = soaLine + `
; a comment
api.demo.example.org.      5 IN A    192.0.2.5
api.demo.example.org.      5 IN AAAA 2001:db8::5
api-int.demo.example.org.  5 IN A    192.0.2.5
api-int.demo.example.org.  5 IN AAAA 2001:db8::5
*.apps.demo.example.org.   5 IN A    192.0.2.6
*.apps.demo.example.org.   5 IN AAAA 2001:db8::6
host-0.demo.example.org.   5 IN A    192.0.2.20
host-0.                    5 IN A    192.0.2.20
` + soaLine

// only returns a zone with one family left.
func only(text, family string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 3 && f[3] != family && f[3] != "SOA"
	}), "")
}

// passedOn is the next plugin, which marks the queries that it gets.
var passedOn = test.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	m := new(dns.Msg)
	m.SetRcode(r, dns.RcodeNameError)
	return dns.RcodeNameError, w.WriteMsg(m)
})

// others returns a next plugin that gives one answer to all queries, a record
// or a code.
func others(code int, answer string) test.HandlerFunc {
	return func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		m := new(dns.Msg)
		m.SetRcode(r, code)
		if answer != "" {
			rr, err := dns.NewRR(answer)
			if err != nil {
				panic(err)
			}
			m.Answer = []dns.RR{rr}
		}
		return code, w.WriteMsg(m)
	}
}

func with(t *testing.T, text string) *Cluster {
	t.Helper()
	z, err := parseZone(strings.NewReader(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Next: passedOn, file: newFile("/nowhere")}
	c.file.zone.Store(z)
	return c
}

func ask(t *testing.T, c *Cluster, name string, qtype uint16) *dns.Msg {
	t.Helper()
	r := new(dns.Msg)
	r.SetQuestion(name, qtype)
	rec := dnstest.NewRecorder(&test.ResponseWriter{})
	if _, err := c.ServeDNS(t.Context(), rec, r); err != nil {
		t.Fatal(err)
	}
	return rec.Msg
}

// addressesOf returns the answer's addresses, sorted.
func addressesOf(m *dns.Msg) []string {
	var out []string
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			out = append(out, rr.A.String())
		case *dns.AAAA:
			out = append(out, rr.AAAA.String())
		}
	}
	slices.Sort(out)
	return out
}

func TestEveryNameHasItsAddressesOfBothFamilies(t *testing.T) {
	c := with(t, dual)
	for _, tc := range []struct {
		name  string
		qtype uint16
		want  []string
	}{
		{"api.demo.example.org.", dns.TypeA, []string{"192.0.2.5"}},
		{"api.demo.example.org.", dns.TypeAAAA, []string{"2001:db8::5"}},
		{"api.demo.example.org.", dns.TypeANY, []string{"192.0.2.5", "2001:db8::5"}},
		{"api-int.demo.example.org.", dns.TypeA, []string{"192.0.2.5"}},
		{"console.apps.demo.example.org.", dns.TypeAAAA, []string{"2001:db8::6"}},
		{"host-0.demo.example.org.", dns.TypeA, []string{"192.0.2.20"}},
		{"host-0.", dns.TypeA, []string{"192.0.2.20"}},
	} {
		m := ask(t, c, tc.name, tc.qtype)
		if got := addressesOf(m); m.Rcode != dns.RcodeSuccess || !m.Authoritative || !slices.Equal(got, tc.want) {
			t.Errorf("%s %s: %s %v, want %v", tc.name, dns.TypeToString[tc.qtype], dns.RcodeToString[m.Rcode], got, tc.want)
		}
	}
}

// The answer is an empty NOERROR with SOA, in both directions: B49 was a "no
// such name" that broke hosts of one family.
func TestHardCase30_B49_TheOtherFamilyIsAnEmptyAnswer(t *testing.T) {
	for family, qtype := range map[string]uint16{"A": dns.TypeAAAA, "AAAA": dns.TypeA} {
		c := with(t, only(dual, family))
		for _, name := range []string{"api.demo.example.org.", "api-int.demo.example.org.", "x.apps.demo.example.org."} {
			m := ask(t, c, name, qtype)
			if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 || len(m.Ns) != 1 {
				t.Fatalf("%s of %s only: %v", name, family, m)
			}
			soa, ok := m.Ns[0].(*dns.SOA)
			if !ok || soa.Hdr.Name != "demo.example.org." || soa.Hdr.Ttl != 1 {
				t.Errorf("%s of %s only: the authority is %v", name, family, m.Ns[0])
			}
		}
	}
}

func TestAnEmptyAnswerForAShortNameIsOfThatName(t *testing.T) {
	m := ask(t, with(t, dual), "host-0.", dns.TypeAAAA)
	if m.Rcode != dns.RcodeSuccess || len(m.Ns) != 1 || m.Ns[0].Header().Name != "host-0." {
		t.Errorf("%v", m)
	}
}

// Beside the cluster's addresses a site has records of other types: the
// challenge of a certificate, the keys of a host.
func TestWhatIsNoAddressIsTheSitesToSay(t *testing.T) {
	c := with(t, dual)
	for _, q := range []struct {
		name  string
		qtype uint16
		says  string
	}{
		{"_acme-challenge.x.apps.demo.example.org.", dns.TypeTXT, "_acme-challenge.x.apps.demo.example.org. 60 IN TXT token"},
		{"x.apps.demo.example.org.", dns.TypeCAA, `x.apps.demo.example.org. 60 IN CAA 0 issue "ca.example"`},
		{"_mqtt._tcp.x.apps.demo.example.org.", dns.TypeSRV, "_mqtt._tcp.x.apps.demo.example.org. 60 IN SRV 0 0 1883 mqtt.example.org."},
		{"x.apps.demo.example.org.", dns.TypeCNAME, "x.apps.demo.example.org. 60 IN CNAME y.example.org."},
		{"host-0.demo.example.org.", dns.TypeSSHFP, "host-0.demo.example.org. 60 IN SSHFP 4 2 aabb"},
		{"api.demo.example.org.", dns.TypeHTTPS, "api.demo.example.org. 60 IN HTTPS 1 . alpn=h2"},
	} {
		c.Next = others(dns.RcodeSuccess, q.says)
		if m := ask(t, c, q.name, q.qtype); len(m.Answer) != 1 || m.Answer[0].Header().Rrtype != q.qtype {
			t.Errorf("%s %s: %v", q.name, dns.TypeToString[q.qtype], m)
		}
	}
}

// A resolver that gets a denial of the name believes it of the addresses, too.
func TestNobodyElseDeniesANameOfTheCluster(t *testing.T) {
	c := with(t, dual)
	for _, name := range []string{"api.demo.example.org.", "x.apps.demo.example.org.", "host-0.demo.example.org."} {
		for _, qtype := range []uint16{dns.TypeTXT, dns.TypeMX, dns.TypeHTTPS, dns.TypeSRV, dns.TypeSOA} {
			m := ask(t, c, name, qtype)
			if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 || len(m.Ns) != 1 || m.Ns[0].Header().Name != "demo.example.org." {
				t.Errorf("%s %s: %v", name, dns.TypeToString[qtype], m)
			}
		}
	}
	c.Next = others(dns.RcodeServerFailure, "")
	if m := ask(t, c, "x.apps.demo.example.org.", dns.TypeTXT); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("that nobody could be asked is told as %v", m)
	}
	c.Next = others(dns.RcodeNameError, "x.apps.demo.example.org. 60 IN CNAME gone.example.org.")
	if m := ask(t, c, "x.apps.demo.example.org.", dns.TypeTXT); m.Rcode != dns.RcodeNameError || len(m.Answer) != 1 {
		t.Errorf("an alias whose target is denied: %v", m)
	}
}

// The health check of forward asks for NS records. Whether this server counts
// as alive must not depend on the site's server.
func TestAHostIsNobodysZoneAndIsSaidToBeNoneWithoutAskingOthers(t *testing.T) {
	c := with(t, dual)
	c.Next = others(dns.RcodeServerFailure, "")
	for _, qtype := range []uint16{dns.TypeNS, dns.TypeSOA, dns.TypeDS} {
		for _, name := range []string{"api-int.demo.example.org.", "host-0.demo.example.org.", "host-0."} {
			if m := ask(t, c, name, qtype); m.Rcode != dns.RcodeSuccess || len(m.Ns) != 1 {
				t.Errorf("%s %s: %v", name, dns.TypeToString[qtype], m)
			}
		}
		for _, name := range []string{"_acme-challenge.x.apps.demo.example.org.", "apps.demo.example.org.", "demo.example.org."} {
			if m := ask(t, c, name, qtype); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s %s is not asked of the site: %v", name, dns.TypeToString[qtype], m)
			}
		}
	}
}

// A query about a node's short name goes to no other server.
func TestAShortNameIsNoneForOthers(t *testing.T) {
	c := with(t, dual)
	c.Next = others(dns.RcodeSuccess, "host-0. 60 IN TXT leaked")
	if m := ask(t, c, "host-0.", dns.TypeTXT); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 || len(m.Ns) != 1 {
		t.Errorf("%v", m)
	}
}

// RFC 8020: a server that denies a name denies all names below it.
func TestANameAboveOneOfTheClusterIsNotDenied(t *testing.T) {
	rack := strings.Replace(dual, "host-0.   ", "host-1.rack.demo.example.org. 5 IN A 192.0.2.21\nhost-0.   ", 1)
	for _, name := range []string{"apps.demo.example.org.", "APPS.demo.example.org.", "rack.demo.example.org.", "demo.example.org."} {
		c := with(t, rack)
		for _, qtype := range []uint16{dns.TypeA, dns.TypeTXT, dns.TypeDS} {
			m := ask(t, c, name, qtype)
			if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 || len(m.Ns) != 1 || m.Ns[0].Header().Ttl != 1 {
				t.Errorf("%s %s: %v", name, dns.TypeToString[qtype], m)
			}
		}
		c.Next = others(dns.RcodeSuccess, name+" 60 IN A 198.51.100.7")
		if m := ask(t, c, name, dns.TypeA); len(m.Answer) != 1 {
			t.Errorf("%s: what the site has there is hidden: %v", name, m)
		}
	}
	for _, name := range []string{"example.org.", "org.", ".", "rack.example.org.", "nobody.demo.example.org."} {
		if m := ask(t, with(t, rack), name, dns.TypeA); m.Rcode != dns.RcodeNameError {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// fooapps is B50; xapi and apiX are H3.
func TestHardCase30_B50_H3_OnlyTheVeryNameMatches(t *testing.T) {
	c := with(t, dual)
	for name, ours := range map[string]bool{
		"api.demo.example.org.":                                    true,
		"API.Demo.EXAMPLE.org.":                                    true,
		"aPi-InT.demo.example.org.":                                true,
		"a.b.apps.demo.example.org.":                               true,
		"A.B.aPPs.demo.example.org.":                               true,
		"one.two.three.four.five.six.seven.apps.demo.example.org.": true,
		"*.apps.demo.example.org.":                                 true,
		"apps.demo.example.org.":                                   false,
		"fooapps.demo.example.org.":                                false,
		"x.fooapps.demo.example.org.":                              false,
		"xapi.demo.example.org.":                                   false,
		"apix.demo.example.org.":                                   false,
		"x.api.demo.example.org.":                                  false,
		"api.xdemo.example.org.":                                   false,
		"apixdemo.example.org.":                                    false,
		"api-int.demoxexample.org.":                                false,
		"api.demo.example.org.x.":                                  false,
		"x.appsxdemo.example.org.":                                 false,
		"apps.demo.example.org.x.":                                 false,
		"api\\.demo.example.org.":                                  false,
		"host-0.example.org.":                                      false,
		"host-00.demo.example.org.":                                false,
		"demo.example.org.":                                        false,
		"example.org.":                                             false,
		".":                                                        false,
	} {
		m := ask(t, c, name, dns.TypeA)
		if got := m.Rcode == dns.RcodeSuccess && len(m.Answer) == 1; got != ours {
			t.Errorf("%s: answered here is %v, want %v", name, got, ours)
		} else if ours && m.Answer[0].Header().Name != name {
			t.Errorf("%s: the answer is for %s: a client that mixes cases to tell forgeries takes it for one", name, m.Answer[0].Header().Name)
		}
	}
}

func TestWhatIsNotOfTheInternetIsPassedOn(t *testing.T) {
	r := new(dns.Msg)
	r.SetQuestion("api.demo.example.org.", dns.TypeTXT)
	r.Question[0].Qclass = dns.ClassCHAOS
	rec := dnstest.NewRecorder(&test.ResponseWriter{})
	if _, err := with(t, dual).ServeDNS(t.Context(), rec, r); err != nil || rec.Msg.Rcode != dns.RcodeNameError {
		t.Errorf("%v %v", rec.Msg, err)
	}
}

func TestAZoneThatIsNotWholeIsRefused(t *testing.T) {
	for why, text := range map[string]string{
		"empty":                    "",
		"no opening SOA":           "api.demo.example.org. 5 IN A 192.0.2.5\n" + soaLine,
		"no closing SOA":           strings.TrimSuffix(dual, soaLine),
		"one SOA only":             soaLine,
		"another closing SOA":      strings.TrimSuffix(dual, soaLine) + strings.Replace(soaLine, " 7 ", " 8 ", 1),
		"something behind the end": dual + "x. 5 IN A 192.0.2.5\n",
		"two closing SOAs":         dual + soaLine,
		"a type that is none":      soaLine + "api. 5 IN CNAME x.\n" + soaLine,
		"an address that is none":  soaLine + "api. 5 IN A 192.0.2\n" + soaLine,
		"another file":             soaLine + "$INCLUDE /etc/passwd\n" + soaLine,
	} {
		if z, err := parseZone(strings.NewReader(text), "test"); err == nil {
			t.Errorf("%s: taken as %v", why, z.names)
		}
	}
}

// The file may be cut off anywhere, even in the middle of an address.
func TestAZoneCutOffAnywhereIsRefused(t *testing.T) {
	text := strings.TrimSuffix(dual, "\n")
	for n := range len(text) {
		if _, err := parseZone(strings.NewReader(text[:n]), "test"); err == nil {
			t.Fatalf("cut off after %d bytes of %d it was taken", n, len(text))
		}
	}
}

// serve follows a file in a folder of the test.
func serve(t *testing.T, text string) (*Cluster, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.zone")
	replace(t, path, text)
	c := &Cluster{Next: passedOn, file: newFile(path)}
	if err := c.file.look(); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { c.file.follow(stop); close(ended) }()
	t.Cleanup(func() { close(stop); <-ended })
	return c, path
}

// replace writes the file as the agent does.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// within asks until the answer is right, and returns the time that it took.
func within(t *testing.T, limit time.Duration, c *Cluster, name string, want ...string) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		got := addressesOf(ask(t, c, name, dns.TypeA))
		if slices.Equal(got, want) {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			t.Fatalf("%s is %v after %s, want %v", name, got, limit, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// The address of a node changes while its name stays.
func TestH1_AChangedAddressIsServedWithinASecondAndWithoutAReload(t *testing.T) {
	c, path := serve(t, dual)
	within(t, 0, c, "host-0.", "192.0.2.20")
	var took []time.Duration
	for _, to := range []string{"192.0.2.21", "192.0.2.22", "192.0.2.23", "192.0.2.24", "192.0.2.25"} {
		replace(t, path, strings.ReplaceAll(dual, "192.0.2.20", to))
		took = append(took, within(t, time.Second, c, "host-0.", to))
	}
	if t.Logf("seen after %v", took); slices.Min(took) > lookInterval/3 {
		t.Error("no event was taken for one")
	}
}

func TestAFileWithoutEventsIsLookedAtTwiceASecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.zone")
	c := &Cluster{Next: passedOn, file: newFile(path)}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { c.file.lookOn(nil, stop); close(ended) }()
	t.Cleanup(func() { close(stop); <-ended })
	replace(t, path, dual)
	within(t, time.Second, c, "host-0.", "192.0.2.20")
}

func TestABrokenFileLeavesTheNamesAndTheNextGoodOneIsServed(t *testing.T) {
	c, path := serve(t, dual)
	for _, broken := range []string{"", "nonsense", strings.TrimSuffix(dual, soaLine)} {
		replace(t, path, broken)
		time.Sleep(20 * time.Millisecond)
		within(t, 0, c, "host-0.", "192.0.2.20")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	within(t, 0, c, "host-0.", "192.0.2.20")
	replace(t, path, strings.ReplaceAll(dual, "192.0.2.20", "192.0.2.21"))
	within(t, time.Second, c, "host-0.", "192.0.2.21")
}

func TestAReloadKeepsTheNamesOfAFileThatIsBrokenNow(t *testing.T) {
	c, path := serve(t, dual)
	replace(t, path, "nonsense")
	next := &Cluster{Next: passedOn, file: newFile(path)}
	next.file.follows(c.file)
	if err := next.file.look(); err == nil {
		t.Error("nonsense was taken")
	}
	within(t, 0, next, "host-0.", "192.0.2.20")
	other := newFile(path + "2")
	if other.follows(c.file); other.zone.Load() != empty {
		t.Error("another file has the names of this one")
	}
}

func TestANameThatIsTakenAwayIsPassedOn(t *testing.T) {
	c, path := serve(t, dual)
	replace(t, path, strings.ReplaceAll(dual, "host-0.   ", "host-1.   "))
	within(t, time.Second, c, "host-1.", "192.0.2.20")
	if m := ask(t, c, "host-0.", dns.TypeA); m.Rcode != dns.RcodeNameError {
		t.Errorf("%v", m)
	}
}

func TestAServerWithoutAFilePassesAllOnAndServesTheFileOnceItIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.zone")
	c := &Cluster{Next: passedOn, file: newFile(path)}
	if err := c.file.look(); err != nil {
		t.Fatal(err)
	}
	if m := ask(t, c, "host-0.", dns.TypeA); m.Rcode != dns.RcodeNameError {
		t.Errorf("%v", m)
	}
	replace(t, path, dual)
	if err := c.file.look(); err != nil {
		t.Fatal(err)
	}
	within(t, 0, c, "host-0.", "192.0.2.20")
}

func FuzzZone(f *testing.F) {
	for _, seed := range []string{dual, only(dual, "A"), soaLine, "", "$ORIGIN x.\n$TTL 1\n@ IN SOA a b 1 1 1 1 1\n", "$GENERATE 1-3 x$. A 192.0.2.$\n", soaLine + "*. 5 IN A 192.0.2.1\n. 5 IN A 192.0.2.1\n" + soaLine, strings.ReplaceAll(soaLine+"a. 5 IN A 192.0.2.1\n"+soaLine, "demo.example.org. 5", ". 5")} {
		f.Add(seed, "a.b.apps.demo.example.org.")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		z, err := parseZone(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		if z.soa == nil {
			t.Fatal("a zone without SOA was taken")
		}
		if _, ok := dns.IsDomainName(name); !ok {
			return
		}
		name = dns.Fqdn(name)
		if a, _ := z.lookup(strings.ToLower(name)); a != nil {
			for _, rr := range a.answer(name, dns.TypeANY) {
				if rr.Header().Name != name {
					t.Fatalf("%s is answered as %s", name, rr.Header().Name)
				}
			}
		}
	})
}
