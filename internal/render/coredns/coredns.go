// Package coredns renders what a host's own name server reads: its
// configuration, the zone of its cluster, and the static pod that runs it. It
// is not the DNS of the cluster's services, which runs as pods.
package coredns

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net/netip"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/names"
)

// TTL is how long a client may remember an answer, in seconds, and NegativeTTL
// how long one that it is empty. A name is looked up on the host itself, so
// short ones cost nothing and keep a stale address short.
const (
	TTL         = 5
	NegativeTTL = 1
)

// HealthPort is where the server says that it lives, to the host itself.
const HealthPort = 18080

// Zone renders the zone file. Its first and its last record are the same, so
// that a file that was cut off is known as one; the serial follows from the
// names, so that equal zones are equal bytes.
func Zone(z names.Zone) []byte {
	var records bytes.Buffer
	for _, n := range z.Names {
		for _, a := range n.Addresses {
			fmt.Fprintf(&records, "%s. %d IN %s %s\n", n.Name, TTL, family(a), a)
		}
	}
	soa := fmt.Sprintf("%s. %d IN SOA api-int.%s. hostmaster.%s. %d 60 60 3600 %d\n",
		z.Domain, TTL, z.Domain, z.Domain, crc32.ChecksumIEEE(records.Bytes()), NegativeTTL)
	var out bytes.Buffer
	out.WriteString("; Written by holdfast-agent; changes are overwritten.\n")
	if !z.Complete {
		out.WriteString(incomplete)
	}
	for _, o := range z.Omitted {
		fmt.Fprintf(&out, "; left out: %s: %s\n", comment(o.Node), comment(o.Reason))
	}
	out.WriteString(soa)
	out.Write(records.Bytes())
	out.WriteString(soa)
	return out.Bytes()
}

// incomplete marks a zone that was made before anybody knew the nodes.
const incomplete = "; the nodes are not known yet\n"

// Complete reports whether a zone file was made when the nodes were known.
func Complete(zone []byte) bool { return len(zone) > 0 && !bytes.Contains(zone, []byte(incomplete)) }

// comment keeps a text on its line.
func comment(text string) string { return strings.Trim(strconv.Quote(text), `"`) }

func family(a netip.Addr) string {
	if a.Is4() {
		return "A"
	}
	return "AAAA"
}

// Config renders the Corefile. Without upstreams every other name is refused
// with a failure, upon which a client asks its next name server.
func Config(s names.Server, zonePath string) []byte {
	out := []byte("# Written by holdfast-agent; changes are overwritten.\n")
	for _, o := range s.Omitted {
		out = fmt.Appendf(out, "# not asked: %s\n", comment(o))
	}
	out = fmt.Appendf(out, serverBlock, words(s.Listen), words(s.Clients), HealthPort, zonePath)
	if s.Cluster != "" {
		out = fmt.Appendf(out, mdnsBlock, s.Domain, words(s.Listen), s.Cluster)
	}
	if len(s.Upstreams) > 0 {
		out = fmt.Appendf(out, upstreamBlock, words(s.Upstreams))
	} else {
		out = append(out, failureBlock...)
	}
	return append(out, "}\n"...)
}

// Forwards reports whether a Corefile names servers to ask.
func Forwards(conf []byte) bool { return bytes.Contains(conf, []byte("\n    forward . ")) }

func words[T fmt.Stringer](list []T) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return strings.Join(out, " ")
}

// The blocks of the file. A query that is not for the cluster goes to the
// first upstream that lives: one that does not answer within a second is left
// for the next, and is passed over at once when two probes have failed, which
// takes 3 s. 1232 bytes are what fits one packet on any link; what is longer is
// asked again over TCP. Strangers are refused at once, with no more bytes than
// they sent; the answer tells them to ask somebody else.
//
// While the site's name servers do not answer, or say that they cannot, what they
// said up to a day ago is said again: a line that is cut at night is mended the
// next day, and a shop's own machines may have their names from the head office.
// They are asked first, for 1.2 s: one that is silent takes 1 s, and the next one
// answers still; pods wait 1.5 s for this server, and 2 s are promised. A name is
// then not asked for again for 30 s, which is also how long its old answer may be
// kept: no longer than a fresh one (RFC 8767 has the same).
//
// reload is there for a signal that got lost.
const (
	serverBlock = `. {
    bind %s
    bufsize 1232
    errors {
        consolidate 30s ".*" warning show_first
    }
    acl {
        allow net %s
        block
    }
    health 127.0.0.1:%d
    reload 10s 2s
    cluster %s
`
	mdnsBlock = `    mdns %s {
        bind %s
        filter %q
        except api api-int
    }
`
	upstreamBlock = `    cache 30 {
        servfail 1s
        serve_stale 24h verify 1200ms 30s 30s
    }
    forward . %s {
        policy sequential
        read_timeout 1s
        max_fails 1
        health_check 500ms
        failover SERVFAIL REFUSED
    }
`
	failureBlock = `    template ANY ANY . {
        rcode SERVFAIL
    }
`
)
