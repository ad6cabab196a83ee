package nftwatch

import (
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// event returns a message of the kernel about a table.
func event(t *testing.T, subsystem, kind int, table string) netlink.Message {
	t.Helper()
	name, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_TABLE_NAME, Data: append([]byte(table), 0)}})
	if err != nil {
		t.Fatal(err)
	}
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(subsystem<<8 | kind)},
		Data:   append(make([]byte, headerSize), name...),
	}
}

func TestOnlyWhatConcernsTheTableIsTold(t *testing.T) {
	const nft = unix.NFNL_SUBSYS_NFTABLES
	for _, c := range []struct {
		name    string
		message netlink.Message
		told    bool
	}{
		{"a new rule", event(t, nft, unix.NFT_MSG_NEWRULE, "ours"), true},
		{"a rule's end", event(t, nft, unix.NFT_MSG_DELRULE, "ours"), true},
		{"the table's end", event(t, nft, unix.NFT_MSG_DELTABLE, "ours"), true},
		{"another table's end", event(t, nft, unix.NFT_MSG_DELTABLE, "ours2"), false},
		{"a generation", event(t, nft, unix.NFT_MSG_NEWGEN, "ours"), false},
		{"another subsystem", event(t, unix.NFNL_SUBSYS_IPSET, unix.NFT_MSG_DELRULE, "ours"), false},
		{"a short message", netlink.Message{Header: netlink.Header{Type: nft<<8 | unix.NFT_MSG_DELTABLE}, Data: []byte{1}}, false},
		{"a broken message", netlink.Message{Header: netlink.Header{Type: nft<<8 | unix.NFT_MSG_DELTABLE}, Data: []byte{0, 0, 0, 0, 200, 0, 1, 0}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (Table{Name: "ours"}).concerns(c.message); got != c.told {
				t.Errorf("told %t", got)
			}
		})
	}
}
