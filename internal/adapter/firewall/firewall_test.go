package firewall

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/ports"
)

// recorded returns the messages by which a table is written, from a fake kernel
// that has no tables and accepts everything.
func recorded(t *testing.T, r ports.Rules) []netlink.Message {
	t.Helper()
	var sent []netlink.Message
	table := Table{options: []nftables.ConnOption{func(c *nftables.Conn) {
		c.TestDial = func(req []netlink.Message) ([]netlink.Message, error) {
			sent = append(sent, req...)
			var out []netlink.Message
			for _, m := range req {
				if m.Header.Flags&netlink.Acknowledge != 0 {
					out = append(out, netlink.Message{Header: netlink.Header{Type: netlink.Error, Sequence: m.Header.Sequence, PID: m.Header.PID}, Data: make([]byte, 4)})
				}
			}
			return out, nil
		}
	}}}
	conn, err := nftables.New(append([]nftables.ConnOption{nftables.AsLasting()}, table.options...)...)
	if err != nil {
		t.Fatal(err)
	}
	_ = replace(conn, r) // the test looks only at what it sends; not all answers of the fake are a kernel's
	return sent
}

func kinds(list []netlink.Message) string {
	names := map[int]string{
		unix.NFT_MSG_NEWTABLE: "+table", unix.NFT_MSG_DELTABLE: "-table", unix.NFT_MSG_NEWSET: "+set", unix.NFT_MSG_NEWSETELEM: "+elements",
		unix.NFT_MSG_NEWCHAIN: "+chain", unix.NFT_MSG_NEWRULE: "+rule",
	}
	var out []string
	for _, m := range list {
		switch kind := int(m.Header.Type); kind {
		case unix.NFNL_MSG_BATCH_BEGIN:
			out = append(out, "begin")
		case unix.NFNL_MSG_BATCH_END:
			out = append(out, "end")
		default:
			out = append(out, names[kind&0xff])
		}
	}
	return strings.Join(out, " ")
}

func rules(hosts int) ports.Rules {
	r := ports.Rules{On: true, Sets: []ports.Set{{Name: "hosts4"}, {Name: "bmcs4"}}}
	a := netip.MustParseAddr("10.0.0.1")
	for range hosts {
		r.Sets[0].Addresses = append(r.Sets[0].Addresses, a)
		a = a.Next()
	}
	pods := netip.MustParsePrefix("10.128.0.0/14")
	r.Input = []ports.Rule{{Protocol: ports.TCP, First: 2379, Last: 2380, Not: "hosts4", Nets: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}, Why: "etcd"}}
	r.Forward = []ports.Rule{{From: pods, To: "bmcs4", Why: "BMCs"}}
	return r
}

func TestATableIsReplacedInOneTransaction(t *testing.T) {
	for _, c := range []struct {
		rules ports.Rules
		want  string
	}{
		{rules(2), "begin +table -table +table +set +elements +set +chain +rule +rule +rule +chain +rule +rule end"},
		{ports.Rules{}, "begin +table -table end"},
	} {
		if got := kinds(recorded(t, c.rules)); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}

// The kernel's protocol counts the bytes of a list in 16 bits.
func TestTheAddressesOfThousandsOfHostsFitTheirMessages(t *testing.T) {
	total, messages := 0, recorded(t, rules(20000))
	for _, m := range messages {
		total += len(m.Data) + 16
		if len(m.Data) >= 1<<16 {
			t.Errorf("a message of %d bytes", len(m.Data))
		}
	}
	if n := strings.Count(kinds(messages), "+elements"); n != (20000+chunk-1)/chunk || total > buffer {
		t.Errorf("%d lists, %d bytes in all", n, total)
	}
}

func TestARuleInTheKernelsWords(t *testing.T) {
	w := content(rules(1))
	want := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpGte, Register: 1, Data: []byte{9, 75}}, &expr.Cmp{Op: expr.CmpOpLte, Register: 1, Data: []byte{9, 76}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Lookup{SourceRegister: 1, SetName: "hosts4", Invert: true},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{255, 255, 255, 0}, Xor: []byte{0, 0, 0, 0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{10, 98, 0, 0}},
		&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop},
	}
	if diff := cmp.Diff(want, w.rules[0][2].Exprs); diff != "" {
		t.Error(diff)
	}
	pods := w.rules[1][1].Exprs
	if b, ok := pods[3].(*expr.Bitwise); !ok || !cmp.Equal(b.Mask, []byte{255, 252, 0, 0}) {
		t.Errorf("%+v", pods[3])
	}
	if l, ok := pods[len(pods)-3].(*expr.Lookup); !ok || l.Invert || l.SetName != "bmcs4" {
		t.Errorf("%+v", pods)
	}
}

func TestWhatRefusesEveryPacket(t *testing.T) {
	for name, c := range map[string]struct {
		rule    []expr.Any
		refuses bool
		next    string
	}{
		"firewalld":        {[]expr.Any{&expr.Reject{Type: 2, Code: 3}}, true, ""},
		"counted and told": {[]expr.Any{&expr.Counter{}, &expr.Log{}, &expr.Verdict{Kind: expr.VerdictDrop}}, true, ""},
		"a jump":           {[]expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictJump, Chain: "end"}}, false, "end"},
		"of some only":     {[]expr.Any{&expr.Ct{}, &expr.Cmp{}, &expr.Verdict{Kind: expr.VerdictDrop}}, false, ""},
		"accepts":          {[]expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}, false, ""},
		"nothing":          {nil, false, ""},
	} {
		if refuses, next := judge(c.rule); refuses != c.refuses || next != c.next {
			t.Errorf("%s: %t, %q", name, refuses, next)
		}
	}
}
