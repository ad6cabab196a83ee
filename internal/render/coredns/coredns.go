// Package coredns renders the files of a host's own name server: its
// configuration, the zone of its cluster, and the static pod that runs it. The
// DNS of the cluster's services is another one, which runs as pods.
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

// TTL is the time for which a client may cache an answer, in seconds, and
// NegativeTTL that for an empty answer. Clients look names up on their own
// host, so short times cost nothing, and a stale address disappears quickly.
const (
	TTL         = 5
	NegativeTTL = 1
)

// HealthPort is the port of the health check, for the host itself only.
const HealthPort = 18080

// Zone renders the zone file. Its first and its last record are equal, so that
// a truncated file can be recognised. The serial number follows from the names,
// so that equal zones have equal bytes.
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

// incomplete marks a zone that was made before the nodes were known.
const incomplete = "; the nodes are not known yet\n"

// Complete reports whether a zone file was made when the nodes were known.
func Complete(zone []byte) bool { return len(zone) > 0 && !bytes.Contains(zone, []byte(incomplete)) }

// comment escapes a text so that it stays on one line.
func comment(text string) string { return strings.Trim(strconv.Quote(text), `"`) }

func family(a netip.Addr) string {
	if a.Is4() {
		return "A"
	}
	return "AAAA"
}

// Config renders the Corefile. Without upstreams, the server answers other
// names with a failure, and the client asks its next name server.
func Config(s names.Server, zonePath string) []byte {
	out := []byte("# Written by holdfast-agent; changes are overwritten.\n")
	for _, o := range s.Omitted {
		out = fmt.Appendf(out, "# not asked: %s\n", comment(o))
	}
	for _, c := range s.Claimed {
		out = fmt.Appendf(out, "# asked nevertheless: %s\n", comment(c))
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

// Forwards reports whether a Corefile forwards to other servers.
func Forwards(conf []byte) bool { return bytes.Contains(conf, []byte("\n    forward . ")) }

func words[T fmt.Stringer](list []T) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return strings.Join(out, " ")
}

// The blocks of the file. A query for a name outside of the cluster goes to the
// first upstream that is alive. If that does not answer within a second, the next
// one gets the query. After two failed probes, which takes 3 s, the upstream is
// skipped at once. 1232 bytes fit into one packet on any link; a longer answer is
// requested again over TCP. Foreign clients are refused at once, with no more
// bytes than they sent; the answer makes them ask another server.
//
// While the site's name servers do not answer, or report a failure, their answers
// of up to a day ago are repeated. A line that is cut at night is repaired the
// next day, and a shop's own machines may get their names from the head office.
// The servers are asked first, for 1.2 s: a silent one takes 1 s, and the next
// one can still answer. Pods wait 1.5 s for this server, and 2 s are promised.
// After that, the name is not asked for again for 30 s. That is also how long a
// client may cache the old answer: no longer than a fresh one (RFC 8767 says the
// same).
//
// reload covers a lost signal.
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
