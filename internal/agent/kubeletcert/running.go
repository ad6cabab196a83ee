package kubeletcert

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Running identifies the kubelet of this host that runs now: another one, also one
// after a boot, is told from it. It is empty if none runs.
func Running(root string) (string, error) {
	pids, err := host.PodProgram{Root: root, Name: "kubelet", Flag: "--kubeconfig", File: state.KubeletKubeconfig}.Processes()
	if err != nil || len(pids) == 0 {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pids[0]) + "/stat")
	if err != nil {
		return "", nil //nolint:nilerr // it has ended
	}
	// The name in parentheses may contain anything. After it the 20th field is the
	// time of the start, in ticks since the boot.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const start = 19
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pids[0], len(fields))
	}
	return fmt.Sprintf("%s/%d/%s", strings.TrimSpace(string(boot)), pids[0], fields[start]), nil
}
