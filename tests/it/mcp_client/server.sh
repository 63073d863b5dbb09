# An MCP server on standard input and output, for tests: its tools and what a call gives are files of a folder. Scripts there
# (on_start, on_list, on_call) are sourced when it starts, before it lists its tools, and before it answers a call.
dir=$1
echo $$ >>"$dir/started"
[ -f "$dir/on_start" ] && . "$dir/on_start"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":"\([^"]*\)".*/\1/p')
  case $line in
  *'"method":"initialize"'*)
    result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"stand-in","version":"1"}}'
    ;;
  *'"method":"tools/list"'*)
    [ -f "$dir/on_list" ] && . "$dir/on_list"
    result="{\"tools\":$(cat "$dir/tools.json")}"
    ;;
  *'"method":"tools/call"'*)
    printf '%s\n' "$line" >>"$dir/calls"
    result=$(cat "$dir/call.json")
    [ -f "$dir/on_call" ] && . "$dir/on_call"
    ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":"%s","result":%s}\n' "$id" "$result"
done
