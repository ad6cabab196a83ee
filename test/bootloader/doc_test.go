// Package bootloader boots virtual machines with a real Debian, each with a boot loader of
// its own, has the agent's own code give it kernel arguments, and reads in the next boot
// with which ones the kernel came up. Power is cut in between: QEMU is killed.
//
// A machine is QEMU with KVM where that works, and an emulated processor elsewhere. It has
// no network. What the guest wrote to its disk stays when QEMU is killed, so a cut loses
// what the guest had in memory, not what a disk's own cache had.
package bootloader

import (
	"flag"
	"os"
	"testing"
)

var (
	play  = flag.Bool("play", false, "boot machines; without it nothing runs")
	agent = flag.String("agent", "../../_output/bin/holdfast-agent", "the agent that machines run")
)

// TestMain is also the program that cuts a run of the agent's code, within a machine.
func TestMain(m *testing.M) {
	if after := os.Getenv(holdVariable); after != "" {
		os.Exit(hold(after))
	}
	os.Exit(m.Run())
}
