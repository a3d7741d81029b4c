# The Elixir end of normandy_port.py: Python tools behind Normandy's BaseTool protocol, over a Port.
#
#     elixir examples/normandy_port.exs [python3 [examples/normandy_port.py]]
#
# The first argument is a Python that has functool (`pip install functool`), the second the program
# with your tools. To call them from code of your own, take `Json`, `Wire` and `PythonTool`:
#
#     {:ok, wire} = Wire.start_link(["python3", "examples/normandy_port.py"])
#     {:ok, schemas} = Wire.ask(wire, %{"op" => "schemas"})
#     Wire.ask(wire, %{"op" => "run", "name" => "greet", "input" => %{"name" => "Bo"}})
#     #=> {:ok, %{"length" => 2, "text" => "Hello, Bo!"}}
#
# `Example.main` at the end does the same through Normandy's protocol and a registry.
#
# The protocol and the executor are small ones of our own with Normandy's names and texts. Nothing is
# fetched.

defprotocol BaseTool do
  def tool_name(tool)
  def tool_description(tool)
  def input_schema(tool)
  def run(tool)
end

defmodule Json do
  @moduledoc "As much JSON as the wire needs: this Elixir has none of its own."

  def encode(nil), do: "null"

  def encode(value) when is_boolean(value) or is_integer(value) or is_float(value),
    do: to_string(value)

  def encode(value) when is_atom(value), do: encode(Atom.to_string(value))
  def encode(value) when is_binary(value), do: [?", for(c <- String.to_charlist(value), do: escape(c)), ?"]

  def encode(value) when is_list(value),
    do: [?[, Enum.intersperse(Enum.map(value, &encode/1), ?,), ?]]

  def encode(value) when is_map(value) do
    pairs = for {key, item} <- value, do: [encode(to_string(key)), ?:, encode(item)]
    [?{, Enum.intersperse(pairs, ?,), ?}]
  end

  defp escape(?"), do: "\\\""
  defp escape(?\\), do: "\\\\"
  defp escape(c) when c < 32, do: "\\u" <> String.pad_leading(Integer.to_string(c, 16), 4, "0")
  defp escape(c), do: <<c::utf8>>

  def decode(text) do
    {value, rest} = value(space(text))
    "" = space(rest)
    value
  end

  defp value("null" <> rest), do: {nil, rest}
  defp value("true" <> rest), do: {true, rest}
  defp value("false" <> rest), do: {false, rest}
  defp value("\"" <> rest), do: string(rest, [])
  defp value("[" <> rest), do: items(space(rest), [])
  defp value("{" <> rest), do: pairs(space(rest), %{})

  defp value(text) do
    [number] = Regex.run(~r/^-?\d+(\.\d+)?([eE][+-]?\d+)?/, text, capture: :first)
    rest = binary_part(text, byte_size(number), byte_size(text) - byte_size(number))

    case Integer.parse(number) do
      {whole, ""} -> {whole, rest}
      {_, "e" <> _} -> {String.to_float(String.replace(number, "e", ".0e")), rest}
      _ -> {elem(Float.parse(number), 0), rest}
    end
  end

  defp items("]" <> rest, found), do: {Enum.reverse(found), rest}
  defp items("," <> rest, found), do: items(space(rest), found)

  defp items(text, found) do
    {item, rest} = value(text)
    items(space(rest), [item | found])
  end

  defp pairs("}" <> rest, found), do: {found, rest}
  defp pairs("," <> rest, found), do: pairs(space(rest), found)

  defp pairs("\"" <> text, found) do
    {key, rest} = string(text, [])
    ":" <> rest = space(rest)
    {item, rest} = value(space(rest))
    pairs(space(rest), Map.put(found, key, item))
  end

  defp string("\"" <> rest, found), do: {found |> Enum.reverse() |> IO.iodata_to_binary(), rest}

  defp string("\\u" <> <<high::binary-size(4), "\\u", low::binary-size(4), rest::binary>>, found)
       when binary_part(high, 0, 1) in ["d", "D"] and
              binary_part(high, 1, 1) in ["8", "9", "a", "b", "A", "B"] do
    code = 0x10000 + Bitwise.bsl(hex(high) - 0xD800, 10) + (hex(low) - 0xDC00)
    string(rest, [<<code::utf8>> | found])
  end

  defp string("\\u" <> <<code::binary-size(4), rest::binary>>, found),
    do: string(rest, [<<hex(code)::utf8>> | found])

  defp string("\\n" <> rest, found), do: string(rest, ["\n" | found])
  defp string("\\t" <> rest, found), do: string(rest, ["\t" | found])
  defp string("\\r" <> rest, found), do: string(rest, ["\r" | found])
  defp string("\\b" <> rest, found), do: string(rest, ["\b" | found])
  defp string("\\f" <> rest, found), do: string(rest, ["\f" | found])
  defp string("\\" <> <<c::utf8, rest::binary>>, found), do: string(rest, [<<c::utf8>> | found])
  defp string(<<c::utf8, rest::binary>>, found), do: string(rest, [<<c::utf8>> | found])

  defp hex(text), do: String.to_integer(text, 16)
  defp space(<<c, rest::binary>>) when c in ' \t\r\n', do: space(rest)
  defp space(text), do: text
end

defmodule Wire do
  @moduledoc "Owns the Port: sends requests, and gives each answer to whoever waits for it."
  use GenServer

  def start_link(command), do: GenServer.start_link(__MODULE__, command)

  # Encoded by the caller: a value that is no JSON ends that caller, and not the wire of all others.
  def ask(wire, request) do
    text = request |> Json.encode() |> IO.iodata_to_binary()
    GenServer.call(wire, text, :infinity)
  end

  @impl true
  def init([program | arguments]) do
    path = System.find_executable(program) || raise "#{program} is not installed"
    # A port that closes sends an exit signal: trapped, it is a message, and whoever waits is told.
    Process.flag(:trap_exit, true)

    port =
      Port.open({:spawn_executable, path}, [
        :binary,
        :exit_status,
        {:line, 65_536},
        {:args, arguments}
      ])

    {:ok, %{port: port, next: 1, waiting: %{}, part: []}}
  end

  @impl true
  def handle_call(_request, _from, %{port: nil} = state),
    do: {:reply, {:error, "the Python process has ended"}, state}

  def handle_call("{" <> fields, from, state) do
    # The id stands first, so that Python finds it in a line that it cannot read.
    line = "{\"id\":#{state.next}," <> fields
    # A message, not Port.command: that one raises when the port has just closed.
    send(state.port, {self(), {:command, line <> "\n"}})
    {:noreply, %{state | next: state.next + 1, waiting: Map.put(state.waiting, state.next, from)}}
  end

  @impl true
  def handle_info({port, {:data, {:noeol, piece}}}, %{port: port} = state) do
    {:noreply, %{state | part: [state.part, piece]}}
  end

  def handle_info({port, {:data, {:eol, piece}}}, %{port: port} = state) do
    answer = [state.part, piece] |> IO.iodata_to_binary() |> Json.decode()
    {from, waiting} = Map.pop(state.waiting, answer["id"])

    reply =
      if Map.has_key?(answer, "error"), do: {:error, answer["error"]}, else: {:ok, answer["ok"]}

    if from, do: GenServer.reply(from, reply)
    {:noreply, %{state | waiting: waiting, part: []}}
  end

  def handle_info({port, {:exit_status, status}}, %{port: port} = state),
    do: {:noreply, ended(state, "the Python process ended with #{status}")}

  # The program closed its input before it read the request.
  def handle_info({:EXIT, port, _reason}, %{port: port} = state),
    do: {:noreply, ended(state, "the Python process does not read requests")}

  def handle_info({:EXIT, _port, _reason}, state), do: {:noreply, state}

  defp ended(state, reason) do
    for {_, from} <- state.waiting, do: GenServer.reply(from, {:error, reason})
    %{state | port: nil, waiting: %{}}
  end
end

defmodule PythonTool do
  defstruct [:wire, :name, :description, :schema, :timeout, input: %{}]
end

defimpl BaseTool, for: PythonTool do
  def tool_name(tool), do: tool.name
  def tool_description(tool), do: tool.description
  def input_schema(tool), do: tool.schema

  def run(tool) do
    request = %{"op" => "run", "name" => tool.name, "input" => tool.input}

    Wire.ask(
      tool.wire,
      if(tool.timeout, do: Map.put(request, "timeout", tool.timeout), else: request)
    )
  end
end

defmodule Registry.Small do
  @moduledoc "Normandy's registry and executor, as far as this example needs them."

  def new(tools), do: Map.new(tools, &{BaseTool.tool_name(&1), &1})

  def execute(registry, name, input, options \\ []) do
    case registry do
      %{^name => tool} -> BaseTool.run(%{tool | input: input, timeout: options[:timeout]})
      _ -> {:error, "Tool '#{name}' not found in registry"}
    end
  end

  def execute_parallel(registry, calls) do
    calls
    |> Enum.map(fn {name, input} -> Task.async(fn -> execute(registry, name, input) end) end)
    |> Task.await_many(:infinity)
  end
end

defmodule Example do
  def main(arguments) do
    python = Enum.at(arguments, 0, "python3")
    program = Enum.at(arguments, 1, Path.join(__DIR__, "normandy_port.py"))
    {:ok, wire} = Wire.start_link([python, program])

    case Wire.ask(wire, %{"op" => "schemas"}) do
      {:ok, schemas} ->
        show(wire, schemas)

      {:error, reason} ->
        IO.puts(:stderr, "#{reason}. Usage: elixir normandy_port.exs [PYTHON [PROGRAM]]")
        exit({:shutdown, 1})
    end
  end

  defp show(wire, schemas) do
    registry =
      Registry.Small.new(
        for schema <- schemas do
          %PythonTool{
            wire: wire,
            name: schema["name"],
            description: schema["description"],
            schema: schema["input_schema"]
          }
        end
      )

    show = fn label, value ->
      IO.puts("#{label}: #{inspect(value, limit: :infinity, printable_limit: :infinity)}")
    end

    show.("names", Map.keys(registry))
    show.("required", BaseTool.input_schema(registry["calculator"])["required"])
    show.("add", Registry.Small.execute(registry, "calculator", %{operation: "add", a: 5, b: 3}))

    show.(
      "divide",
      Registry.Small.execute(registry, "calculator", %{operation: "divide", a: 1, b: 2})
    )

    show.(
      "by zero",
      Registry.Small.execute(registry, "calculator", %{operation: "divide", a: 1, b: 0})
    )

    show.("greet", Registry.Small.execute(registry, "greet", %{name: "Zoë \"Z\" 🐈\n"}))
    show.("unknown key", Registry.Small.execute(registry, "greet", %{name: "Bo", volume: 11}))
    show.("missing", Registry.Small.execute(registry, "greet", %{}))
    show.("crash", Registry.Small.execute(registry, "crash", %{}))
    show.("late", Registry.Small.execute(registry, "wait", %{seconds: 60}, timeout: 50))
    show.("nobody", Registry.Small.execute(registry, "nobody", %{}))

    show.(
      "parallel",
      Registry.Small.execute_parallel(registry, [
        {"wait", %{seconds: 0.2}},
        {"calculator", %{operation: "multiply", a: 6, b: 7}},
        {"crash", %{}}
      ])
    )
  end
end

Example.main(System.argv())
