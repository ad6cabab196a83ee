package porttest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestNoTwoGetTheSamePort(t *testing.T) {
	seen := map[uint16]bool{}
	for range 200 {
		p := Free(t)
		if seen[p] || p < first || p >= first+count {
			t.Fatalf("port %d", p)
		}
		seen[p] = true
	}
}

// Another process gets none of this process's ports, even if nobody listens
// there.
func TestAnotherProcessGetsOtherPorts(t *testing.T) {
	if os.Getenv("PORTTEST_CHILD") != "" {
		for range 200 {
			fmt.Println("port", Free(t))
		}
		return
	}
	mine := map[string]bool{}
	for range count / 2 {
		mine[fmt.Sprint("port ", Free(t))] = true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", t.Name())
	child.Env = append(os.Environ(), "PORTTEST_CHILD=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	theirs := 0
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.HasPrefix(line, "port ") {
			theirs++
		}
		if mine[line] {
			t.Errorf("%s was given twice", line)
		}
	}
	if theirs != 200 {
		t.Errorf("%d ports\n%s", theirs, out)
	}
}

func TestAPortThatIsInUseIsNotGiven(t *testing.T) {
	for _, network := range []string{"tcp", "udp"} {
		port := int(Free(t))
		if network == "tcp" {
			l, err := net.Listen(network, fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
		} else {
			c, err := net.ListenPacket(network, fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
		}
		if unused(port) {
			t.Errorf("%s: port %d is called unused", network, port)
		}
	}
}
