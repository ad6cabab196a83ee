package staticpod

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// The flags that etcd reads only where it finds no data.
const (
	initialCluster = "initial-cluster"
	initialState   = "initial-cluster-state"
)

// Seal returns the manifest of etcd's pod with which etcd goes on with the data that it finds, and
// refuses to start without. It is told to join a cluster that exists and that it is the only one in:
// it asks the other members who they are, and there is nobody to ask. Where it finds a log it reads
// neither flag. A manifest that is sealed keeps its bytes.
func Seal(manifest []byte) ([]byte, error) {
	pod, command, err := commandOf(manifest, func(program string) bool { return program == "etcd" })
	if err != nil {
		return nil, err
	}
	if command == nil {
		return nil, fmt.Errorf("static pod %q runs no etcd", pod.Name)
	}
	has := map[string]string{}
	for _, word := range command[1:] {
		if name, value, is := argument(word); is {
			has[name] = value
		}
	}
	name, peers := has["name"], has["initial-advertise-peer-urls"]
	if name == "" || peers == "" {
		return nil, errors.New("static pod etcd: its command does not say by which name and at which peer URL it runs")
	}
	own := name + "=" + strings.ReplaceAll(peers, ",", ","+name+"=")
	return withCommand(manifest, pod.Name, command, changed(command, map[string]string{initialCluster: own, initialState: "existing"}, nil))
}

// Sealed reports whether etcd of a pod never starts without data.
func Sealed(manifest []byte) bool {
	out, err := Seal(manifest)
	return err == nil && bytes.Equal(out, manifest)
}
